//! Subscribers as other servers take them in: written line by line, so that a million of them need
//! no memory.

use std::io::{self, Write};
use std::str::FromStr;

use vtax_plan::model::{Subscribers, SubscribersError};
use vtax_wire::sip::{Algorithm, ha1};

/// How a server outside vtax is told of its subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvisionFormat {
    /// One line each, after a line of names (RFC 4180 but for its line ends): for scripts.
    Csv,
    /// Statements for the table `subscriber` of Kamailio and OpenSIPS, in `MySQL`, `MariaDB` or
    /// `PostgreSQL`.
    Sql,
    /// Sections of Asterisk's `pjsip.conf`.
    Pjsip,
}

impl ProvisionFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Sql, Self::Pjsip];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Sql => "sql",
            Self::Pjsip => "pjsip",
        }
    }
}

impl FromStr for ProvisionFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|f| f.name() == text)
            .ok_or_else(|| format!("`{text}` is no format for subscribers; there are {}", names()))
    }
}

/// Rows of one statement: enough that parsing and indexing dominate, few enough for the shortest
/// packets that servers are set to accept.
const ROWS_PER_STATEMENT: u32 = 500;

/// Writes all subscribers to `to`, which should be buffered.
///
/// # Errors
///
/// Where the subscribers are impossible, of kind [`io::ErrorKind::InvalidInput`], before anything is
/// written; or where writing fails.
pub fn provision(subscribers: &Subscribers, format: ProvisionFormat, to: &mut dyn Write) -> io::Result<()> {
    let formats = subscribers.formats().map_err(invalid)?;
    let mut of = Subscriber { known: subscribers, public: vec![], private: vec![], password: vec![] };
    match format {
        ProvisionFormat::Csv => writeln!(to, "public,private,password,realm,domain")?,
        ProvisionFormat::Sql => {
            writeln!(to, "-- {} subscribers for Kamailio's and OpenSIPS' table.\nBEGIN;", subscribers.count)?;
        }
        ProvisionFormat::Pjsip => writeln!(to, "; {} subscribers: endpoint, auth, aor.", subscribers.count)?,
    }
    for index in 0..subscribers.count {
        for (format, text) in [
            (&formats.public, &mut of.public),
            (&formats.private, &mut of.private),
            (&formats.password, &mut of.password),
        ] {
            text.clear();
            format.write(index, text);
        }
        match format {
            ProvisionFormat::Csv => of.csv(to)?,
            ProvisionFormat::Sql => of.sql(index, to)?,
            ProvisionFormat::Pjsip => of.pjsip(to)?,
        }
    }
    if format == ProvisionFormat::Sql {
        writeln!(to, "COMMIT;")?;
    }
    to.flush()
}

fn invalid(source: SubscribersError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, source)
}

/// One of them. Everything is printable ASCII without `"` and `\`; see [`Subscribers::formats`].
struct Subscriber<'a> {
    known: &'a Subscribers,
    public: Vec<u8>,
    private: Vec<u8>,
    password: Vec<u8>,
}

impl Subscriber<'_> {
    fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        let (realm, domain) = (self.known.realm.as_bytes(), self.known.domain.as_bytes());
        for (index, field) in
            [&self.public, &self.private, &self.password, realm, domain].into_iter().enumerate()
        {
            if index > 0 {
                to.write_all(b",")?;
            }
            // Of what has to be quoted, only the comma can be there.
            let quote: &[u8] = if field.contains(&b',') { b"\"" } else { b"" };
            to.write_all(quote)?;
            to.write_all(field)?;
            to.write_all(quote)?;
        }
        to.write_all(b"\n")
    }

    /// The columns that are in every version of the table. Authentication goes by the private
    /// identity, the registrar by the public one, which is in no table before it is registered.
    fn sql(&self, index: u32, to: &mut dyn Write) -> io::Result<()> {
        if index.is_multiple_of(ROWS_PER_STATEMENT) {
            to.write_all(b"INSERT INTO subscriber (username, domain, password, ha1) VALUES\n")?;
        }
        let secret = ha1(Algorithm::Md5, &self.private, self.known.realm.as_bytes(), &self.password);
        let domain = self.known.domain.as_bytes();
        for (field, before) in [
            (self.private.as_slice(), b"('".as_slice()),
            (domain, b"','"),
            (self.password.as_slice(), b"','"),
            (secret.bytes(), b"','"),
        ] {
            to.write_all(before)?;
            doubled(field, to)?;
        }
        let last = index + 1 == self.known.count || (index + 1).is_multiple_of(ROWS_PER_STATEMENT);
        to.write_all(if last { b"');\n" } else { b"'),\n" })
    }

    /// Sections of one name and different types, as Asterisk allows. The space after `=` keeps a
    /// value's first character from being part of the operator `=>`.
    fn pjsip(&self, to: &mut dyn Write) -> io::Result<()> {
        let (public, realm) = (String::from_utf8_lossy(&self.public), &self.known.realm);
        let escaped = |text: &[u8]| String::from_utf8_lossy(text).replace(';', "\\;");
        let (user, password) = (escaped(&self.private), escaped(&self.password));
        let realm = escaped(realm.as_bytes());
        write!(
            to,
            "\n[{public}]\ntype = endpoint\ncontext = vtax\ndisallow = all\nallow = ulaw\naors = {public}\n\
             auth = {public}\n\
             [{public}]\ntype = auth\nauth_type = userpass\nusername = {user}\npassword = {password}\n\
             realm = {realm}\n\
             [{public}]\ntype = aor\nmax_contacts = 1\nremove_existing = yes\n"
        )
    }
}

/// A text for an SQL string, in which a quote is written twice.
fn doubled(text: &[u8], to: &mut dyn Write) -> io::Result<()> {
    for piece in text.split_inclusive(|b| *b == b'\'') {
        to.write_all(piece)?;
        if piece.ends_with(b"'") {
            to.write_all(b"'")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribers(count: u32) -> Subscribers {
        Subscribers {
            count,
            public: "subs%03d".into(),
            private: "p,%d;x".into(),
            password: ">a'b%d".into(),
            realm: "ims;test".into(),
            domain: "open-ims.test".into(),
        }
    }

    fn text(count: u32, format: ProvisionFormat) -> String {
        let mut text = Vec::new();
        provision(&subscribers(count), format, &mut text).expect("memory takes everything");
        String::from_utf8(text).expect("ASCII")
    }

    #[test]
    fn csv() {
        let expected = "public,private,password,realm,domain\n\
                        subs000,\"p,0;x\",>a'b0,ims;test,open-ims.test\n\
                        subs001,\"p,1;x\",>a'b1,ims;test,open-ims.test\n";
        assert_eq!(text(2, ProvisionFormat::Csv), expected);
    }

    #[test]
    fn sql() {
        // MD5 by md5sum(1) of `p,0;x:ims;test:>a'b0` and `p,1;x:ims;test:>a'b1`.
        let expected = "-- 2 subscribers for Kamailio's and OpenSIPS' table.\nBEGIN;\n\
                        INSERT INTO subscriber (username, domain, password, ha1) VALUES\n\
                        ('p,0;x','open-ims.test','>a''b0','05ac70053c1edf511616511c2428518b'),\n\
                        ('p,1;x','open-ims.test','>a''b1','b9ca10ea193a10c0bf7af593250180fe');\n\
                        COMMIT;\n";
        assert_eq!(text(2, ProvisionFormat::Sql), expected);
        let many = text(1001, ProvisionFormat::Sql);
        assert_eq!(many.matches("INSERT").count(), 3);
        assert_eq!(many.matches(");\n").count(), 3);
        assert_eq!(many.matches("('p,").count(), 1001);
    }

    #[test]
    fn pjsip() {
        let expected = "; 1 subscribers: endpoint, auth, aor.\n\n\
            [subs000]\ntype = endpoint\ncontext = vtax\ndisallow = all\nallow = ulaw\naors = subs000\n\
            auth = subs000\n\
            [subs000]\ntype = auth\nauth_type = userpass\nusername = p,0\\;x\npassword = >a'b0\n\
            realm = ims\\;test\n\
            [subs000]\ntype = aor\nmax_contacts = 1\nremove_existing = yes\n";
        assert_eq!(text(1, ProvisionFormat::Pjsip), expected);
    }

    #[test]
    fn impossible_subscribers_write_nothing() {
        let mut subscribers = subscribers(2);
        subscribers.password = "'); DROP TABLE subscriber; -- \\".into();
        let mut text = Vec::new();
        let error = provision(&subscribers, ProvisionFormat::Sql, &mut text).expect_err("refused");
        assert_eq!((error.kind(), text.len()), (io::ErrorKind::InvalidInput, 0));
    }

    #[test]
    fn formats_have_names() {
        for format in ProvisionFormat::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("xml".parse::<ProvisionFormat>().expect_err("none").contains("csv, sql, pjsip"));
    }

    /// What is written is dropped at once, so only what is kept could fill memory.
    #[test]
    fn a_million_are_written_as_they_come() {
        let mut largest = Largest(0, 0);
        let million = Subscribers { count: 1_000_000, ..subscribers(1) };
        provision(&million, ProvisionFormat::Csv, &mut largest).expect("it takes everything");
        assert!(largest.0 < 100 && largest.1 > 40_000_000, "{} {}", largest.0, largest.1);
    }

    /// The largest single write, and the bytes of all.
    struct Largest(usize, usize);

    impl Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            self.1 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
