"""How a model adapts: one LightningModule, one file, per method."""
