//! What comes from strangers, and who reads it: hostile runs, readers of screens, narrow windows, paper.

use std::path::Path;

use serde_json::{Value, json};
use vtax_fixture::hostile;
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_sys::require::possible;
use vtax_sys::sync::lock;

use crate::support::{Site, copy, make};
use crate::webdriver::{Browser, is_there};
use crate::{ONE, three_runs};

/// Whether anything in the page that is shown ran [`hostile::EVIL`].
fn harmed(browser: &Browser) -> bool {
    // What an image's failure would run comes after the page was read.
    std::thread::sleep(std::time::Duration::from_millis(200));
    browser.text("document.title") == "pwned"
}

#[test]
fn nothing_of_a_hostile_run_is_executed() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let site = Site::new(|root| {
        let run = make(&root.join("a"));
        copy(&run, &root.join("b"), 1_795_000_000_000, 0.7);
        for name in ["a", "b"] {
            hostile::texts(&root.join(name)).expect("changed");
            write_all(&RunDir::open(root.join(name)).expect("a run")).expect("a report");
        }
    });
    let list = site.list(2);
    let hrefs = list.split("href=\"/run/").skip(1).filter_map(|rest| rest.split('"').next());
    let ids: Vec<&str> = hrefs.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let browser = Browser::start();
    browser.go(&site.link);
    browser.until("document.querySelectorAll('tr[data-href]').length === 2");
    let (a, b) = (ids[0], ids[1]);
    for path in
        ["/".to_owned(), format!("/run/{a}"), format!("/run/{a}/report"), format!("/compare?a={a}&b={b}")]
    {
        browser.go(&format!("http://{}{path}", site.address));
        // Two such runs may be refused as too different to be compared, in words of vtax's own.
        let shown = browser.text("document.body.innerText").contains("onerror");
        assert!(shown || path.starts_with("/compare"), "{path} shows what it got");
        assert!(!harmed(&browser), "{path}");
    }
    let complaints = browser.complaints();
    let refused = |text: &String| text.contains("/compare") && text.contains("409");
    assert!(complaints.iter().all(refused), "nothing was even tried: {complaints:?}");
    // The same as a file, and a page in which escaping has failed: its policy keeps what slipped in from running.
    let file = site.root().join("a/report.html");
    browser.go(&format!("file://{}", file.display()));
    assert!(!harmed(&browser));
    browser.until("document.getElementById('theme').hidden === false");
    let page = std::fs::read_to_string(&file).expect("a page");
    let broken = page.replacen("<main>", &format!("<main>{}", hostile::EVIL), 1);
    assert_ne!(page, broken);
    std::fs::write(&file, broken).expect("written");
    browser.go(&format!("file://{}", file.display()));
    browser.until("document.querySelector('img') !== null");
    assert!(!harmed(&browser));
    let complaints = browser.complaints().join("\n");
    assert!(complaints.contains("Content Security Policy"), "{complaints}");
}

/// Serious problems that axe-core finds in the page that is shown, with all that can be opened open.
fn problems(browser: &Browser, axe: &str) -> Vec<String> {
    browser.value("(document.querySelectorAll('details').forEach((d) => { d.open = true; }), 1)");
    browser.value(&format!("(function () {{ {axe}\n return 1; }})()"));
    let found = browser.promise("axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations)");
    let serious = |v: &&Value| ["serious", "critical"].iter().any(|impact| v["impact"] == *impact);
    let told = |v: &Value| {
        let node = &v["nodes"][0];
        format!(
            "{} ({}): {} {}",
            v["id"],
            v["nodes"].as_array().map_or(0, Vec::len),
            node["html"],
            node["failureSummary"]
        )
    };
    found.as_array().expect("a list").iter().filter(serious).map(told).collect()
}

#[test]
fn readers_of_screens_have_no_serious_problem() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    // `make test` installs it; it is no part of vtax.
    let axe = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/test-tools/node_modules/axe-core/axe.min.js");
    let Ok(axe) = std::fs::read_to_string(&axe) else {
        let required =
            std::env::var("VTAX_REQUIRE").is_ok_and(|all| all.split(',').any(|word| word == "axe"));
        assert!(!required, "VTAX_REQUIRE has `axe`, and axe-core is missing");
        let _ = possible(Some("axe-core is missing; `cargo xtask test-tools` installs it"));
        return;
    };
    let (site, browser) = three_runs();
    let run = browser.text("document.querySelector('tr[data-href]').dataset.href");
    let history = format!(
        "/history?run={}&cell=container.bridge.http&figure=capacity%2Fcapacity",
        run.trim_start_matches("/run/")
    );
    let mut all = Vec::new();
    for path in ["/".to_owned(), run.clone(), history, format!("{run}/report")] {
        for (width, scheme) in [(1280, "light"), (360, "dark")] {
            browser.width(width);
            let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
            browser.devtools("Emulation.setEmulatedMedia", &feature);
            browser.go(&format!("http://{}{path}", site.address));
            all.extend(problems(&browser, &axe).into_iter().map(|p| format!("{path} {width} {scheme}: {p}")));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n\n"));
}

#[test]
fn a_report_holds_in_a_narrow_window_and_is_printed_whole() {
    let _one = lock(&ONE);
    if !is_there() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let run = make(&directory.path().join("run"));
    write_all(&run).expect("a report");
    let browser = Browser::start();
    for width in [360, 1280] {
        browser.width(width);
        browser.go(&format!("file://{}", run.path().join("report.html").display()));
        browser.value("(document.querySelectorAll('details').forEach((d) => { d.open = true; }), 1)");
        // Plans make long names.
        let head = "document.querySelector('.verdicts tbody tr:not(.metric) th')";
        browser.value(&format!("({head}.textContent = 'native (path in TCG) over no-backdoor-at-all-1', 1)"));
        let wide = browser.value("document.documentElement.scrollWidth").as_f64().expect("a width");
        assert!(wide <= f64::from(width), "the page is {wide} wide in a window of {width}");
        // What is wider than the window can be moved within its own frame, and no text is too small to read.
        let lost = "[...document.querySelectorAll('main table, main svg, main pre')].filter((e) => \
            e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll') && \
            getComputedStyle(e).overflowX === 'visible').map((e) => e.outerHTML.slice(0, 120))";
        assert_eq!(browser.value(lost), json!([]), "cut off at {width}");
        browser.shot(&format!("report-{width}"));
    }
    browser.go(&format!("file://{}", run.path().join("report.html").display()));
    let closed = "document.querySelectorAll('details:not([open])').length";
    assert!(browser.value(closed).as_u64() > Some(0), "there is something to open");
    browser.value(&format!(
        "(addEventListener('beforeprint', () => {{ window.closed_on_paper = {closed}; }}), 1)"
    ));
    let paper = browser.devtools("Page.printToPDF", &json!({"printBackground": true}));
    assert_eq!(browser.value("window.closed_on_paper"), json!(0), "all sections are open on paper");
    browser.keep("report.pdf", &paper);
    // Whatever theme was chosen.
    browser.value("(document.documentElement.dataset.theme = 'dark', 1)");
    browser.devtools("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    let background = browser.value("getComputedStyle(document.body).backgroundColor");
    assert_eq!(background, "rgb(255, 255, 255)", "paper is light");
    assert_eq!(browser.value(SORTED), json!(["descending", "", "", true, true]));
}

/// Sorts the typical values of all figures by the space bar, up and down, one of them missing: the direction, the last
/// value of each, and whether the others are in order.
const SORTED: &str = "(() => {
    const table = document.querySelector('#figures table'), head = table.tHead.rows[0].cells[4];
    const lost = table.tBodies[0].rows[0].cells[4];
    lost.textContent = lost.dataset.v = '';
    const sort = () => {
        head.dispatchEvent(new KeyboardEvent('keydown', { key: ' ', cancelable: true }));
        return [...table.tBodies[0].rows].map((row) => row.cells[4].dataset.v);
    };
    const [up, down] = [sort(), sort()];
    const rises = (values) => values.every((v, i) => i === 0 || Number(values[i - 1]) <= Number(v));
    const order = head.getAttribute('aria-sort');
    return [order, up.at(-1), down.at(-1), rises(up.slice(0, -1)), rises(down.slice(0, -1).reverse())];
})()";
