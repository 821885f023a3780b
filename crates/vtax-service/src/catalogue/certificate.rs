//! The files of a server's certificate and key, made for one start.

use crate::certificate::Certificate;
use crate::documents::write_secret;
use crate::error::ServiceError;
use crate::recipe::EntryContext;

/// In the service's directory.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";

/// Makes both.
pub(super) fn write(context: &EntryContext<'_>) -> Result<(), ServiceError> {
    let path = context.directory.join(CERTIFICATE);
    let made =
        Certificate::new(context.address.ip()).map_err(context.file("making a certificate for", &path))?;
    let [certificate, key] = made.pem;
    for (name, text) in [(CERTIFICATE, certificate), (KEY, key)] {
        let path = context.directory.join(name);
        // Servers refuse a key that others may read.
        write_secret(&path, text.as_bytes()).map_err(context.file("writing", &path))?;
    }
    Ok(())
}
