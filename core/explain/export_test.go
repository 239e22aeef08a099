package explain

// Codes is the number of codes plus one.
const Codes = codes
