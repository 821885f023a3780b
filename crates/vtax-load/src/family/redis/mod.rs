//! Redis load: GET and SET of keys whose values tell by themselves whether they are right.

mod dialogue;
mod fill;
mod keys;
mod session;
mod spec;
mod values;

pub use session::RedisSession;
pub use spec::RedisSpec;
