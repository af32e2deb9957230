"""CiteME as a task of Inspect (https://inspect.aisi.org.uk), and runs as its logs; an extra."""
