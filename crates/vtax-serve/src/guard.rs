//! Who may ask, and how: the `Host` header, the token, what a POST needs, sizes, and what every answer says of itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN, REFERRER_POLICY,
    REFRESH, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};

use crate::app::Shared;
use crate::refusal::Refusal;
use crate::token::Token;

/// Longest path of a request, in bytes.
const PATH: usize = 256;
/// Longest query.
const QUERY: usize = 4096;

/// In a query beside the token: the browser comes from a page in a file ([`LinkPage`](crate::LinkPage)).
pub(crate) const BY_FILE: &str = "via=file";

/// What is shown for a moment to a browser that comes from there.
const SIGNED_IN: Html<&str> = Html("<!DOCTYPE html>\n<title>vtax</title>\n");

/// What the server's own pages may do: use its style and script, and ask it for more.
const OWN: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                   form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What pages made of runs may do: nothing, as if they were of no server at all.
pub(crate) const FOREIGN: &str = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; \
                                  script-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'";

/// The header by which a page has no window in common with pages of others.
const OPENER_POLICY: &str = "cross-origin-opener-policy";

/// What is known of requests that may pass.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Token,
    /// Values that the `Host` header may have, in lower case.
    hosts: Vec<String>,
    /// The port, where any address may be asked for by its number.
    any_address: Option<u16>,
    /// Whether that is the usual port of the scheme, which clients leave out.
    is_usual_port: bool,
    /// `http://` or `https://`.
    scheme: &'static str,
    /// Name of the cookie: cookies don't know ports, so the port is in it.
    cookie: String,
    /// Whether anything may be changed.
    may_post: bool,
}

/// What becomes of a request.
enum Admission {
    /// It is answered.
    Yes,
    /// Its sender gets the cookie and is sent to the same place without the token.
    SignIn(String),
    /// It isn't answered.
    No(Refusal),
}

impl Guard {
    pub(crate) fn new(
        token: Token,
        address: SocketAddr,
        names: &[String],
        is_tls: bool,
        may_post: bool,
    ) -> Self {
        let (port, ip) = (address.port(), address.ip());
        let usual = if is_tls { 443 } else { 80 };
        let mut hosts = vec![format!("localhost:{port}")];
        let own = SocketAddr::new(ip, port);
        hosts.push(own.to_string());
        for name in names {
            let name = name.to_ascii_lowercase();
            if !name.contains(':') {
                hosts.push(format!("{name}:{port}"));
            }
            hosts.push(name);
        }
        if port == usual {
            let plain: Vec<String> =
                hosts.iter().filter_map(|h| h.strip_suffix(&format!(":{port}")).map(str::to_owned)).collect();
            hosts.extend(plain);
        }
        Self {
            token,
            hosts,
            any_address: ip.is_unspecified().then_some(port),
            is_usual_port: port == usual,
            scheme: if is_tls { "https://" } else { "http://" },
            cookie: format!("vtax-{port}"),
            may_post,
        }
    }

    fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Admission {
        match self.check(method, uri, headers) {
            Err(refusal) => Admission::No(refusal),
            Ok(None) => Admission::Yes,
            Ok(Some(place)) => Admission::SignIn(place),
        }
    }

    /// The place to send the sender to, where the token came in the address.
    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        if uri.path().len() > PATH || uri.query().is_some_and(|q| q.len() > QUERY) {
            return Err(Refusal::new(StatusCode::URI_TOO_LONG, "The address is too long."));
        }
        let host = self.host(uri, headers)?;
        if ![Method::GET, Method::HEAD, Method::POST].contains(method)
            || (*method == Method::POST && !self.may_post)
        {
            let text = "This page only shows; `vtax serve --allow-run` lets it start runs.";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        if let Some(given) = in_query(uri) {
            if *method == Method::GET && self.token.is(given) {
                return Ok(Some(without_token(uri)));
            }
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "The token in this link is not the one of this server.",
            ));
        }
        let by_header = bearer(headers).is_some_and(|given| self.token.is(given));
        if !by_header && !self.has_cookie(headers) {
            let text = "Open the link that `vtax serve` printed: it has a token in it.";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, text));
        }
        if *method == Method::POST && !by_header {
            self.own_page(&host, headers)?;
        }
        Ok(None)
    }

    /// The `Host` header, where it names this server.
    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, Refusal> {
        let misdirected = || {
            let text = "This server doesn't answer to that name. `vtax serve --name NAME` makes it.";
            Refusal::new(StatusCode::MISDIRECTED_REQUEST, text)
        };
        if uri.authority().is_some() {
            return Err(Refusal::unclear("A path is expected, not an address."));
        }
        let mut given = headers.get_all(HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else { return Err(misdirected()) };
        let host = host.to_str().map_err(|_| misdirected())?.to_ascii_lowercase();
        if self.is_number(&host) || self.hosts.contains(&host) { Ok(host) } else { Err(misdirected()) }
    }

    /// Whether this asks for one of any addresses by its number. A name never does, whatever it leads to.
    fn is_number(&self, host: &str) -> bool {
        let Some(port) = self.any_address else { return false };
        if self.is_usual_port && address_alone(host).is_some_and(|ip| !ip.is_unspecified()) {
            return true;
        }
        let address = host.parse::<SocketAddr>().ok();
        address.is_some_and(|a| a.port() == port && !matches!(a.ip(), IpAddr::V6(v6) if v6.is_unspecified()))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|text| text.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .any(|(name, value)| name == self.cookie && self.token.is(value))
    }

    /// Whoever may have a browser's cookie must be a page of this very server.
    fn own_page(&self, host: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let own = format!("{}{host}", self.scheme);
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        if origin == Some(own.as_str()) && site.is_none_or(|site| site == "same-origin") {
            return Ok(());
        }
        Err(Refusal::new(StatusCode::FORBIDDEN, "Only a page of this server may ask for this."))
    }

    /// The answer to a link with the right token.
    ///
    /// To a browser, one that comes from a file was sent by another site, also where it is sent on, and it wouldn't bring its cookie.
    /// So it gets a page of this server's, which sends it there.
    fn signed_in(&self, place: &str, by_file: bool) -> Response {
        let secure = if self.scheme == "https://" { "; Secure" } else { "" };
        let cookie =
            format!("{}={}; Path=/; HttpOnly; SameSite=Strict{secure}", self.cookie, self.token.text());
        let refresh = format!("0; url={place}");
        let (mut response, onward) = if by_file {
            (SIGNED_IN.into_response(), (REFRESH, refresh.as_str()))
        } else {
            (StatusCode::SEE_OTHER.into_response(), (LOCATION, place))
        };
        for (name, value) in [(SET_COOKIE, cookie.as_str()), onward] {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// A `Host` that is an address without a port: `192.0.2.7`, `[2001:db8::7]`.
fn address_alone(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// The value of `token` in a query.
fn in_query(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Whether a browser comes from a page in a file.
fn is_by_file(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == BY_FILE))
}

/// The same place, its query without the token. It begins with one slash: with two it would be another server's.
fn without_token(uri: &Uri) -> String {
    let path = uri.path().trim_start_matches('/');
    let pairs = uri.query().unwrap_or_default().split('&');
    let rest: Vec<&str> = pairs.filter(|pair| !pair.starts_with("token=") && *pair != BY_FILE).collect();
    let query = rest.join("&");
    if query.is_empty() { format!("/{path}") } else { format!("/{path}?{query}") }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Lets pass what may, and adds to every answer what it says of itself.
pub(crate) async fn guard(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let by_file = is_by_file(request.uri());
    let mut response = match app.guard.admit(request.method(), request.uri(), request.headers()) {
        Admission::Yes => next.run(request).await,
        Admission::SignIn(place) => app.guard.signed_in(&place, by_file),
        Admission::No(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    let policy = headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(OWN));
    // A page can't both be in a sandbox and have a policy for its opener: by the standard of HTML a browser then shows a network error.
    if *policy != FOREIGN {
        headers.insert(HeaderName::from_static(OPENER_POLICY), HeaderValue::from_static("same-origin"));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer` browsers would say of their own forms that they come from nowhere.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard_of(address: &str, names: &[&str], may_post: bool) -> Guard {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        Guard::new(Token::draw().unwrap(), address.parse().unwrap(), &names, false, may_post)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn status(guard: &Guard, method: Method, uri: &str, pairs: &[(&'static str, &str)]) -> u16 {
        match guard.check(&method, &uri.parse().unwrap(), &headers(pairs)) {
            Ok(None) => 200,
            Ok(Some(_)) => 303,
            Err(refusal) => refusal.status.as_u16(),
        }
    }

    #[test]
    fn names_of_others_are_refused() {
        let guard = guard_of("127.0.0.1:8093", &["box.lan"], false);
        let bearer = format!("Bearer {}", guard.token.text());
        let by = |host: &str| status(&guard, Method::GET, "/", &[("host", host), ("authorization", &bearer)]);
        for host in ["127.0.0.1:8093", "localhost:8093", "LOCALHOST:8093", "box.lan:8093", "box.lan"] {
            assert_eq!(by(host), 200, "{host}");
        }
        for host in [
            "evil.example:8093",
            "127.0.0.1:8094",
            "localhost",
            "",
            "localhost:8093.evil",
            "127.0.0.1:8093, x",
        ] {
            assert_eq!(by(host), 421, "{host}");
        }
        assert_eq!(status(&guard, Method::GET, "/", &[("authorization", &bearer)]), 421, "without any");
        let two =
            [("host", "localhost:8093"), ("host", "localhost:8093"), ("authorization", bearer.as_str())];
        assert_eq!(status(&guard, Method::GET, "/", &two), 421, "with two");
        let absolute = [("host", "localhost:8093"), ("authorization", bearer.as_str())];
        assert_eq!(status(&guard, Method::GET, "http://localhost:8093/", &absolute), 400);
        let everywhere = guard_of("0.0.0.0:80", &[], false);
        let bearer = format!("Bearer {}", everywhere.token.text());
        let by =
            |host: &str| status(&everywhere, Method::GET, "/", &[("host", host), ("authorization", &bearer)]);
        assert_eq!((by("192.0.2.7:80"), by("localhost"), by("rebound.example:80")), (200, 200, 421));
    }

    #[test]
    fn the_usual_port_may_be_left_out_and_names_are_refused_all_the_same() {
        let asked = |listen: &str, is_tls: bool, host: &str| {
            let guard = Guard::new(Token::draw().unwrap(), listen.parse().unwrap(), &[], is_tls, false);
            let bearer = format!("Bearer {}", guard.token.text());
            status(&guard, Method::GET, "/", &[("host", host), ("authorization", &bearer)])
        };
        for (listen, is_tls) in [("0.0.0.0:80", false), ("[::]:80", false), ("[::]:443", true)] {
            for host in ["192.0.2.7", "[2001:db8::7]", "[::ffff:192.0.2.7]", "127.0.0.1", "localhost"] {
                assert_eq!(asked(listen, is_tls, host), 200, "{host} on {listen}");
            }
            for host in [
                "rebound.example",
                "192.0.2.7.rebound.example",
                "192.0.2",
                "0x7f000001",
                "2130706433",
                "2001:db8::7",
                "[2001:db8::7",
                "[192.0.2.7]",
                "[::1]x",
                "[]",
                "192.0.2.7:8093",
            ] {
                assert_eq!(asked(listen, is_tls, host), 421, "{host} on {listen}");
            }
        }
        assert_eq!(asked("[::]:80", false, "0.0.0.0"), 421, "that is nobody's address");
        // Elsewhere a client says the port, and an address of another server's isn't this one's.
        for (listen, is_tls) in [("0.0.0.0:8093", false), ("0.0.0.0:443", false), ("192.0.2.1:80", false)] {
            assert_eq!(asked(listen, is_tls, "192.0.2.7"), 421, "{listen}");
        }
    }

    #[test]
    fn a_token_is_needed_and_leaves_the_address() {
        let guard = guard_of("127.0.0.1:8093", &[], false);
        let token = guard.token.text().to_owned();
        let host = ("host", "localhost:8093");
        assert_eq!(status(&guard, Method::GET, "/", &[host]), 401);
        assert_eq!(status(&guard, Method::GET, "/?token=", &[host]), 403);
        assert_eq!(status(&guard, Method::GET, &format!("/?token={}", "0".repeat(32)), &[host]), 403);
        assert_eq!(status(&guard, Method::GET, &format!("/?token={token}"), &[host]), 303);
        assert_eq!(status(&guard, Method::HEAD, &format!("/?token={token}"), &[host]), 403);
        let place = |uri: String| without_token(&uri.parse().unwrap());
        assert_eq!(place(format!("/run/ab?x=1&token={token}&y=2")), "/run/ab?x=1&y=2");
        assert_eq!(place(format!("//evil.example/?token={token}")), "/evil.example/");
        assert_eq!(place(format!("/?token={token}&{BY_FILE}")), "/");
        for (cookie, expected) in [
            (format!("vtax-8093={token}"), 200),
            (format!("a=b; vtax-8093={token}; c"), 200),
            (format!("vtax-8094={token}"), 401),
            ("vtax-8093=".to_owned(), 401),
        ] {
            assert_eq!(status(&guard, Method::GET, "/", &[host, ("cookie", &cookie)]), expected, "{cookie}");
        }
        let basic = format!("Basic {token}");
        assert_eq!(status(&guard, Method::GET, "/", &[host, ("authorization", &basic)]), 401);
    }

    #[test]
    fn only_its_own_pages_may_change_anything() {
        let shows = guard_of("127.0.0.1:8093", &[], false);
        let host = ("host", "localhost:8093");
        let cookie = |guard: &Guard| format!("vtax-8093={}", guard.token.text());
        let own = ("origin", "http://localhost:8093");
        assert_eq!(status(&shows, Method::POST, "/start", &[host, own, ("cookie", &cookie(&shows))]), 405);
        let starts = guard_of("127.0.0.1:8093", &[], true);
        let cookie = cookie(&starts);
        let with = |more: &[(&'static str, &str)]| {
            let all: Vec<_> =
                [host, ("cookie", cookie.as_str())].into_iter().chain(more.iter().copied()).collect();
            status(&starts, Method::POST, "/start", &all)
        };
        assert_eq!(with(&[own]), 200);
        assert_eq!(with(&[own, ("sec-fetch-site", "same-origin")]), 200);
        assert_eq!(with(&[own, ("sec-fetch-site", "same-site")]), 403);
        assert_eq!(with(&[]), 403);
        assert_eq!(with(&[("origin", "http://localhost:8094")]), 403);
        assert_eq!(with(&[("origin", "null")]), 403);
        assert_eq!(with(&[("origin", "https://localhost:8093")]), 403);
        assert_eq!(status(&starts, Method::DELETE, "/", &[host, ("cookie", &cookie)]), 405);
    }

    #[test]
    fn long_addresses_are_refused() {
        let guard = guard_of("127.0.0.1:8093", &[], false);
        let host = [("host", "localhost:8093")];
        assert_eq!(status(&guard, Method::GET, &format!("/{}", "a".repeat(PATH)), &host), 414);
        assert_eq!(status(&guard, Method::GET, &format!("/?{}", "a".repeat(QUERY + 1)), &host), 414);
    }
}
