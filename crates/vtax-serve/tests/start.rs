//! Starting and stopping runs from the page, by a script in place of vtax.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Answer, PATIENCE, Site, starter};

fn site(directory: &Path) -> Site {
    Site::with(|_| {}, Some(starter(directory)))
}

fn post(site: &Site, path: &str, body: &str) -> Answer {
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    site.raw(site.request("POST", path, form, body).as_bytes())
}

#[test]
fn a_plan_is_checked_started_watched_and_stopped() {
    let directory = tempfile::tempdir().expect("a directory");
    let site = site(directory.path());
    let form = site.get("/start").body;
    assert!(form.contains("<option value=\"t.yaml\"") && form.contains("method=\"post\""), "{form}");
    let checked = post(&site, "/start", "plan=t.yaml&changes=repeat.min%3D3&do=check");
    assert_eq!(checked.status, 200, "{}", checked.body);
    assert!(checked.body.contains("would run") && checked.body.contains("vtax run "), "{}", checked.body);
    let wrong = post(&site, "/start", "plan=t.yaml&changes=nonsense&do=check").body;
    assert!(wrong.contains("can&#39;t be run") && wrong.contains("&lt;b&gt;nonsense"), "{wrong}");
    assert_eq!(post(&site, "/start", "plan=../t.yaml&do=start").status, 404);
    assert_eq!(post(&site, "/start", "plan=t.yaml&do=other").status, 400);
    assert_eq!(
        post(&site, "/start", &format!("plan=t.yaml&changes={}&do=check", "a".repeat(20_000))).status,
        413
    );
    let started = post(&site, "/start", "plan=t.yaml&changes=repeat.min%3D3&do=start");
    assert_eq!((started.status, started.header("location")), (303, Some("/job/1")), "{}", started.body);
    assert_eq!(post(&site, "/start", "plan=t.yaml&do=start").status, 409, "one at a time");
    let page = until(&site, "&lt;b&gt;run ");
    assert!(page.contains("--set=repeat.min=3") && page.contains("action=\"/job/1/stop\""), "{page}");
    assert!(page.contains("data-again"), "{page}");
    assert_eq!(post(&site, "/job/1/stop", "").status, 303);
    let page = until(&site, "exit status: 130");
    assert!(!page.contains("action=\"/job/1/stop\"") && !page.contains("data-again"), "{page}");
    assert_eq!((site.get("/job/2").status, site.get("/job/x").status), (404, 400));
}

/// The page of the first job, once it has this text.
fn until(site: &Site, text: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let page = site.get("/job/1").body;
        if page.contains(text) {
            return page;
        }
        assert!(Instant::now() < deadline, "{text} is not in {page}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_page_of_another_server_starts_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let site = site(directory.path());
    let port = site.address.port();
    let by = |origin: &str| {
        let body = "plan=t.yaml&do=check";
        let request = format!(
            "POST /start HTTP/1.1\r\nHost: {}\r\nCookie: vtax-{port}={}\r\n{origin}Connection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            site.address,
            site.token,
            body.len()
        );
        site.raw(request.as_bytes()).status
    };
    assert_eq!(by(&format!("Origin: http://{}\r\n", site.address)), 200);
    assert_eq!(by(""), 403);
    assert_eq!(by("Origin: http://evil.example\r\n"), 403);
    assert_eq!(by(&format!("Origin: http://127.0.0.1:{}\r\n", port.wrapping_add(1))), 403);
}
