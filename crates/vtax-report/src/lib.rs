//! Stored run to HTML, XLSX, CSV and JSON.
