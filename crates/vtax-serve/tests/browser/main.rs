//! The page in a real browser: a run followed to its end over a lost connection, the token, the keyboard, widths.

mod proxy;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod webdriver;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;
use vtax_serve::LinkPage;
use vtax_store::{LiveComparison, LiveState, LiveTrial, LiveWriter};
use vtax_sys::sync::lock;

use crate::proxy::Way;
use crate::support::{PATIENCE, Site, copy, half, make, starter};
use crate::webdriver::{Browser, is_there};

/// One browser at a time.
static ONE: Mutex<()> = Mutex::new(());

fn all_are_local(browser: &Browser) {
    let requests = browser.requests();
    assert!(!requests.is_empty(), "nothing was asked for");
    for url in requests {
        // The last two are pages of the browser's own.
        let local = ["http://127.0.0.1:", "data:", "blob:", "about:", "chrome:", "chrome-untrusted:"];
        assert!(local.iter().any(|start| url.starts_with(start)), "{url} was asked for");
    }
}

/// The page that is shown is valid HTML, by the standard's own rules as far as tidy knows them.
fn is_valid(browser: &Browser, site: &Site) {
    let path = browser.text("location.pathname + location.search");
    let body = site.get(&path).body;
    let mut tidy = Command::new("tidy")
        .args(["-errors", "-quiet", "--show-warnings", "no", "--drop-empty-elements", "no"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidy starts");
    tidy.stdin.take().expect("its input").write_all(body.as_bytes()).expect("written");
    let output = tidy.wait_with_output().expect("tidy ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(2), "{path}:\n{errors}");
}

fn live(at_unix_ms: u64, index: u32) -> LiveState {
    LiveState {
        at_unix_ms,
        trial: Some(LiveTrial {
            index,
            cell: "vm.bridge.http".into(),
            measure: "latency".into(),
            repetition: 2,
        }),
        phase: "measuring".into(),
        rate: Some(12_345.6),
        finished: index,
        owed: 36 - index,
        remaining_ms: 300_000,
        comparisons: vec![LiveComparison {
            cell: "vm.bridge.http".into(),
            measure: "latency".into(),
            interval: Some((1.1, 1.4)),
            rounds: index,
            further: Some(2),
            ..LiveComparison::default()
        }],
    }
}

/// A page that nobody sees follows nothing. What happens meanwhile is one trial.
fn unseen(browser: &Browser, site: &Site, more: &mut dyn FnMut() -> bool) {
    let hide = |hidden: bool| {
        let value = format!("{{value: {hidden}, configurable: true}}");
        browser.value(&format!("(Object.defineProperty(document, 'hidden', {value}), 1)"));
        browser.value("document.dispatchEvent(new Event('visibilitychange'))");
    };
    hide(true);
    let deadline = Instant::now() + PATIENCE;
    while !site.get("/metrics").body.contains("\nvtax_serve_followers 0\n") {
        assert!(Instant::now() < deadline, "it is still followed");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(more());
    hide(false);
}

#[test]
fn a_run_is_followed_to_its_end_over_a_lost_connection() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let mut way = Way::new();
    let mut more: Option<Box<dyn FnMut() -> bool>> = None;
    let fill = |root: &Path| more = Some(Box::new(half(root)));
    let site = Site::named(fill, None, vec![way.address.to_string()]);
    way.lead(site.address);
    let mut more = more.expect("a run that goes on");
    let mut writer = LiveWriter::create(&site.root().join("going")).expect("a live file");
    let id = site.first_run();
    let browser = Browser::start();
    browser.width(1280);
    browser.go(&format!("http://{}/run/{id}?token={}", way.address, site.token));
    assert!(!browser.text("location.href").contains("token"), "the token leaves the address");
    browser.until("document.documentElement.dataset.opened === '1'");
    writer.append(&live(1, 18)).expect("written");
    browser.until("document.getElementById('phase').textContent === 'measuring'");
    browser.until("document.querySelector('#widths tbody').innerText.includes('2 more rounds')");
    browser.shot("live-1280");
    assert!(more());
    browser.until("document.querySelectorAll('#news li').length === 1");
    browser.until("Number(document.documentElement.dataset.drawn) >= 1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    way.cut(true);
    browser.until("document.getElementById('live').classList.contains('cut')");
    assert!(more() && more());
    way.cut(false);
    browser.until("Number(document.documentElement.dataset.opened) >= 2");
    browser.until("document.querySelectorAll('#news li').length === 3");
    unseen(&browser, &site, &mut *more);
    browser.until("document.querySelectorAll('#news li').length === 4");
    while more() {}
    browser.until("document.getElementById('state').textContent === 'complete'");
    writer.append(&live(9, 36)).expect("written");
    browser.until("document.getElementById('live').dataset.last.endsWith('.9')");
    assert_eq!(browser.text("document.getElementById('state').textContent"), "complete");
    browser.until("document.querySelector('#progress h2').textContent === 'Verdicts'");
    let told = browser.value("document.querySelectorAll('#news li').length");
    assert_eq!(told, 36 - 18 + 1, "every trial once, and the end");
    // That a connection was lost is all that the console may say.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|text| text.contains("net::ERR_")), "{complaints:?}");
    all_are_local(&browser);
    browser.width(360);
    browser.shot("live-360");
    is_valid(&browser, &site);
}

#[test]
fn without_the_token_nothing_is_shown_and_with_it_runs_are_started() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let site = Site::with(|root| drop(make(&root.join("a"))), Some(starter(directory.path())));
    site.first_run();
    let browser = Browser::start();
    for path in ["/", "/?token=0123456789abcdef0123456789abcdef", "/metrics"] {
        browser.go(&format!("http://{}{path}", site.address));
        let text = browser.text("document.body.innerText");
        assert!(text.contains("token") && !text.contains("quick"), "{path}: {text}");
    }
    browser.go(&site.link);
    browser.until("document.querySelectorAll('tr[data-href]').length === 1");
    // The cookie is out of a script's reach.
    assert_eq!(browser.text("document.cookie"), "");
    browser.go(&format!("http://{}/start", site.address));
    browser.click("button[value=check]");
    browser.until("document.getElementById('check')?.innerText.startsWith('would run')");
    browser.click("button[value=start]");
    browser.until("location.pathname === '/job/1'");
    browser.click("form[action='/job/1/stop'] button");
    let deadline = Instant::now() + PATIENCE;
    while browser.text("document.querySelector('.state').dataset.state") != "ended" {
        assert!(Instant::now() < deadline, "it doesn't stop");
        browser.go(&format!("http://{}/job/1", site.address));
    }
    all_are_local(&browser);
}

/// As `vtax serve --open` leads there: from a page in a file, which isn't the server's.
#[test]
fn a_page_in_a_file_leads_to_the_server() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let site = Site::new(|root| drop(make(&root.join("a"))));
    site.first_run();
    let page = LinkPage::write(directory.path(), &site.link).expect("a page");
    let browser = Browser::start();
    browser.go(&format!("file://{}", page.path().display()));
    browser.until("document.querySelectorAll('tr[data-href]').length === 1");
    assert_eq!(browser.text("location.pathname + location.search"), "/", "the token leaves the address");
}

/// Three runs of a plan, and a browser that has the cookie.
fn three_runs() -> (Site, Browser) {
    let site = Site::new(|root| {
        let model = make(&root.join("../model"));
        for (i, factor) in [1.0, 0.6, 0.62].into_iter().enumerate() {
            copy(&model, &root.join(format!("r{i}")), 1_795_000_000_000 + i as u64 * 86_400_000, factor);
        }
    });
    site.list(3);
    let browser = Browser::start();
    browser.width(1280);
    browser.go(&site.link);
    browser.until("document.querySelectorAll('tr[data-href]').length === 3");
    (site, browser)
}

#[test]
fn the_list_is_used_by_keys_alone() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let (site, browser) = three_runs();
    browser.press(&["?"]);
    browser.until("document.querySelector('dialog').open");
    browser.press(&["\u{e00c}"]);
    browser.until("!document.querySelector('dialog').open");
    browser.press(&["j", "a", "j", "b", "c"]);
    browser.until("location.pathname === '/compare'");
    assert!(browser.text("document.body.innerText").contains("Taxes of B over A"));
    browser.go(&format!("http://{}/", site.address));
    browser.press(&["j", "\u{e007}"]);
    browser.until("location.pathname.startsWith('/run/')");
    browser.press(&["r"]);
    browser.until("location.pathname.endsWith('/report')");
    browser.until("document.title.startsWith('vtax: ')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    all_are_local(&browser);
}

/// What a run is called, its verdicts and its headline are all seen, in a wide window and on a phone.
#[test]
fn the_list_has_the_width_of_the_window_and_cards_on_phones() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let (site, browser) = three_runs();
    let number = |what: &str| browser.value(what).as_f64().unwrap_or(f64::NAN);
    for width in [1100, 1700] {
        browser.width(width);
        browser.go(&format!("http://{}/", site.address));
        let table = number("document.querySelector('.runs').getBoundingClientRect().width");
        assert!(table > 0.9 * f64::from(width), "the list is {table} wide in a window of {width}");
        let cut = "(s => s.scrollWidth - s.clientWidth)(document.querySelector('.runs').closest('.scroll'))";
        assert_eq!(number(cut), 0.0, "cut off at {width}");
        let lines = "new Set([...document.querySelectorAll('.filter.list > *')]\
                     .map((e) => Math.round(e.getBoundingClientRect().bottom))).size";
        assert_eq!(number(lines), 1.0, "the filters are in one line at {width}");
        let tall = "Math.max(...[...document.querySelectorAll('.runs tr')].map((r) => r.offsetHeight))";
        assert!(number(tall) < 90.0, "a row is {} tall at {width}", number(tall));
    }
    browser.width(360);
    browser.go(&format!("http://{}/", site.address));
    assert_eq!(browser.text("getComputedStyle(document.querySelector('tr[data-href]')).display"), "flex");
    let first = "document.querySelector('tr[data-href] th').getBoundingClientRect().top \
                 <= document.querySelector('tr[data-href] td').getBoundingClientRect().top";
    assert_eq!(browser.value(first).as_bool(), Some(true), "a card begins with the run's name");
    let label = |cell: &str| {
        browser.text(&format!("getComputedStyle(document.querySelector('{cell}'), '::before').content"))
    };
    let labels = [label("tr[data-href] td"), label("tr.said td")];
    assert_eq!(labels, ["\"A\"", "none"], "only what is chosen by it has a letter");
}

#[test]
fn pages_fit_phones_and_desktops_in_light_and_dark_and_on_paper() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let (site, browser) = three_runs();
    let run = browser.text("document.querySelector('tr[data-href]').dataset.href");
    let id = run.trim_start_matches("/run/");
    let history = format!("/history?run={id}&cell=container.bridge.http&figure=capacity%2Fcapacity");
    for (name, path) in [("list", "/"), ("run", run.as_str()), ("history", history.as_str())] {
        for width in [360, 1280] {
            browser.width(width);
            browser.go(&format!("http://{}{path}", site.address));
            let of_page = |what: &str| browser.value(&format!("document.documentElement.{what}")).as_f64();
            let (needs, has) = (of_page("scrollWidth"), of_page("clientWidth"));
            assert!(has.is_some() && needs <= has, "{name} is {needs:?} wide in a window of {has:?}");
            browser.shot(&format!("{name}-{width}"));
        }
        is_valid(&browser, &site);
        let paper = browser.devtools("Page.printToPDF", &json!({}));
        assert!(paper["data"].as_str().is_some_and(|data| data.len() > 1000), "{name} can't be printed");
        let colour = |scheme: &str| {
            let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
            browser.devtools("Emulation.setEmulatedMedia", &feature);
            browser.text("getComputedStyle(document.body).backgroundColor")
        };
        assert_ne!(colour("dark"), colour("light"), "{name}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    all_are_local(&browser);
}
