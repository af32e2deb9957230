"""CiteME as a task of Inspect (https://inspect.aisi.org.uk), and runs of ours as its logs; an extra."""
