//! A made-up run of calls after a scenario of SIPp's, from the store to every form of the report.

use std::fs;

use vtax_fixture::script::create;
use vtax_report::write_all;
use vtax_store::summary::Summary;

#[test]
fn what_a_scenario_timed_is_told_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let read = |name: &str| fs::read_to_string(run.path().join(name)).unwrap();
    let page = read("report.html");
    for place in ["calls", "calls-times", "calls-sound", "calls-failed", "calls-commands"] {
        assert!(page.contains(&format!("id=\"{place}\"")), "no section {place}");
    }
    assert!(page.contains("&lt;recv 200&gt; of line 7: nothing came") && page.contains(">answers<"));
    // A count may be above 1: it is no share.
    let section = page.split("id=\"calls\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert!(section.contains(">0.0200<") && !section.contains(" %"), "{section}");
    let rows = |name: &str| read(&format!("csv/{name}.csv")).lines().count() - 1;
    // Two environments; three trials of each.
    assert_eq!((rows("script_trials"), rows("script_failures")), (6, 2));
    assert_eq!((rows("script_timers"), rows("script_commands")), (2 * 2, 2 * 2));
    // Both directions of each environment; two ratings of each direction and of calls.
    assert_eq!((rows("script_sound"), rows("script_sound_calls")), (2 * 2, 2 * 3 * 2));
    let timers = read("csv/script_timers.csv");
    // All trials together: 990 calls in each of three.
    assert!(timers.lines().skip(1).all(|line| line.contains(",2970,")), "{timers}");
    let summary: Summary = serde_json::from_str(&read("summary.json")).unwrap();
    let value = |environment: &str, metric: &str| {
        let found = summary.cells.iter().find(|c| c.environment == environment).unwrap();
        found.metrics.get(metric).unwrap_or_else(|| panic!("no {metric}")).center
    };
    assert!((value("native", "call_sent_again") - 0.02).abs() < 1e-9);
    let ratio = value("vm", "call_length_p50") / value("native", "call_length_p50");
    assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    assert!((value("native", "error_share") - 0.01).abs() < 1e-9);
    assert!((value("native", "voice_loss") - 50.0 / (200.0 * 990.0)).abs() < 1e-9);
    assert!((value("vm", "voice_silent") - 1.0 / 990.0).abs() < 1e-9);
    assert!(value("vm", "voice_mos") < value("native", "voice_mos"));
    // One call of ten sounds like R 70 natively, R 35 in the virtual machine.
    let worst = ["native", "vm"].map(|environment| value(environment, "voice_mos_worst"));
    assert!((worst[0] - 3.597).abs() < 0.001 && (worst[1] - 1.827).abs() < 0.01, "{worst:?}");
}

/// The plan of a run has it, as it is needed to go on; nothing that is made of the run has it again.
#[test]
fn a_password_of_the_plan_is_in_no_form_of_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let mut files = vec![run.path().to_owned()];
    let (mut seen, mut found) = (0, Vec::new());
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        seen += 1;
        let bytes = fs::read(&path).unwrap();
        if bytes.windows(15).any(|part| part == b"not-to-be-shown") {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    assert!(seen > 10);
    assert_eq!(found, ["plan.yaml"]);
}
