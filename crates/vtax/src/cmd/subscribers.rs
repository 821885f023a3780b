//! Who the subscribers of a SIP service are, for those who serve them and those who are them.

use std::fs::File;
use std::io::Read as _;

use vtax_plan::model::Subscribers;

/// Longest file of a password.
const FILE_MAX: u64 = 64 << 10;

/// The first line of a file, for passwords that aren't to be seen in the list of processes.
pub(crate) fn first_line(path: &str) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read it: {error}"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// In a format `%d` or `%06d` stands for the subscriber's number, from 0.
#[derive(clap::Args)]
pub(crate) struct SubscriberArgs {
    /// How many subscribers there are.
    #[arg(long, default_value_t = 100_000)]
    subscribers: u32,
    /// Format of the user part of addresses of record.
    #[arg(long, value_name = "FORMAT", default_value = "subs%06d")]
    public_format: String,
    /// Format of the user names of digest authentication; as the public format where not given.
    #[arg(long, value_name = "FORMAT")]
    private_format: Option<String>,
    /// Password, or a format of passwords [default: vtax]. Others see it in the list of processes; --password-file hides it.
    #[arg(long, value_name = "FORMAT", conflicts_with = "password_file")]
    password: Option<String>,
    /// A file whose first line is that password or format.
    #[arg(long, value_name = "FILE", value_parser = first_line)]
    password_file: Option<String>,
    /// Realm of digest authentication; the domain where not given.
    #[arg(long)]
    realm: Option<String>,
    /// Domain of the addresses of record.
    #[arg(long, default_value = "vtax.test")]
    domain: String,
}

impl SubscriberArgs {
    pub(crate) fn subscribers(&self) -> Subscribers {
        let password = self.password_file.as_ref().or(self.password.as_ref());
        Subscribers {
            count: self.subscribers,
            public: self.public_format.clone(),
            private: self.private_format.as_ref().unwrap_or(&self.public_format).clone(),
            password: password.map_or_else(|| "vtax".to_owned(), String::clone),
            realm: self.realm.as_ref().unwrap_or(&self.domain).clone(),
            domain: self.domain.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "se cret\r\nmore\n").unwrap();
        assert_eq!(first_line(file.path().to_str().unwrap()).unwrap(), "se cret");
        assert!(first_line("/nowhere/at/all").unwrap_err().starts_with("cannot read it"));
    }
}
