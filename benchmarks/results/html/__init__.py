"""Results as one file that opens in a browser, from a mail attachment as well."""
