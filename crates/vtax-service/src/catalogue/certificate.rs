//! The files of a server's certificate and key, made for one start.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::certificate::Certificate;
use crate::documents::write_file;
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
        write_file(&path, text.as_bytes()).map_err(context.file("writing", &path))?;
        // Servers refuse a key that others may read.
        fs::set_permissions(&path, Permissions::from_mode(0o600))
            .map_err(context.file("protecting", &path))?;
    }
    Ok(())
}
