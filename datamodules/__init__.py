"""What the model sees: streams of corrupted images as LightningDataModules."""
