"""Files of people: tables of data, the names of categories, reports and counts."""
