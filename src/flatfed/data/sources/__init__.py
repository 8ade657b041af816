"""One module per data set; the catalogue imports all that lie here."""
