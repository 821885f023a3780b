//! Who the subscribers of a SIP service are, for those who serve them and those who are them.

use vtax_plan::model::Subscribers;

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
    /// Password, or a format of passwords.
    #[arg(long, value_name = "FORMAT", default_value = "vtax")]
    password: String,
    /// Realm of digest authentication; the domain where not given.
    #[arg(long)]
    realm: Option<String>,
    /// Domain of the addresses of record.
    #[arg(long, default_value = "vtax.test")]
    domain: String,
}

impl SubscriberArgs {
    pub(crate) fn subscribers(&self) -> Subscribers {
        Subscribers {
            count: self.subscribers,
            public: self.public_format.clone(),
            private: self.private_format.as_ref().unwrap_or(&self.public_format).clone(),
            password: self.password.clone(),
            realm: self.realm.as_ref().unwrap_or(&self.domain).clone(),
            domain: self.domain.clone(),
        }
    }
}
