//! The studies that vtax brings along: their data hold together, and their plans have what their claims look for.

use std::path::{Path, PathBuf};

use serde_json::Value;
use vtax_plan::model::{EnvironmentKind, MeasureKind, Plan, Workload};
use vtax_stats::ENCLOSING;
use vtax_study::{Kind, Loaded, Mode, Test, names, open, open_folder, rules};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn all() -> Vec<Loaded> {
    names().into_iter().map(|name| open(name).unwrap_or_else(|e| panic!("{e}"))).collect()
}

fn plan(loaded: &Loaded, file: &str, sets: &[String]) -> Plan {
    let text = loaded.plan(file).unwrap_or_else(|e| panic!("{e}"));
    vtax_plan::parse(file, text.as_bytes(), sets).unwrap_or_else(|e| panic!("{}: {e}", loaded.study.name))
}

#[test]
fn every_folder_is_part_of_the_program_and_reads_the_same() {
    let mut folders: Vec<String> = std::fs::read_dir(repository().join("studies"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut known = names();
    known.sort_unstable();
    assert_eq!(folders, known);
    for loaded in all() {
        let folder = repository().join("studies").join(&loaded.study.name);
        let again = open_folder(&folder).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again.study, loaded.study);
        for experiment in &loaded.study.experiments {
            for mode in [Mode::Quick, Mode::Full] {
                let file = experiment.plan(mode);
                assert_eq!(loaded.plan(file).unwrap(), again.plan(file).unwrap(), "{file}");
            }
        }
        let plans = std::fs::read_dir(folder.join("plans")).unwrap().count();
        assert_eq!(plans, 2 * loaded.study.experiments.len(), "{}", loaded.study.name);
    }
}

#[test]
fn plans_have_what_claims_look_for() {
    for loaded in all() {
        for experiment in &loaded.study.experiments {
            for mode in [Mode::Quick, Mode::Full] {
                let plan = plan(&loaded, experiment.plan(mode), &[]);
                let wrong = vtax_study::misfits(&loaded.study, &experiment.id, mode, &plan, &|_| true);
                assert!(wrong.is_empty(), "{}, {}: {wrong:#?}", loaded.study.name, experiment.id);
            }
        }
    }
}

#[test]
fn plans_can_be_run_as_the_studies_were() {
    for loaded in all() {
        for experiment in &loaded.study.experiments {
            let sets = experiment.published_sets();
            for mode in [Mode::Quick, Mode::Full] {
                let plan = plan(&loaded, experiment.plan(mode), &sets);
                assert_eq!((plan.repeat.min, plan.repeat.max), (experiment.trials, experiment.trials));
                let wrong =
                    vtax_study::misfits_as_published(&loaded.study, &experiment.id, mode, &plan, &|_| true);
                assert!(wrong.is_empty(), "{}, {}: {wrong:#?}", loaded.study.name, experiment.id);
            }
        }
    }
}

/// As published the benchmark of SIP has the study's own timers, subscribers and steps, in either mode.
#[test]
fn the_benchmark_of_sip_is_published_with_the_studys_options() {
    let loaded = open("virtualized-ims").unwrap();
    for experiment in &loaded.study.experiments {
        for mode in [Mode::Quick, Mode::Full] {
            // As `vtax reproduce` sets it, which also takes the quick mode's budget away.
            let plan = plan(&loaded, experiment.plan(mode), &experiment.published_sets());
            for cell in &plan.cells {
                let Workload::Sip(sip) = &cell.workload else { panic!("{}: no SIP", cell.id) };
                assert_eq!((sip.subscribers.count, sip.addresses, sip.registered.0), (100_000, 10, 0.8));
                assert_eq!(sip.t1.as_secs_f64(), 0.5, "{}", cell.id);
            }
            let steps = plan.measures.iter().filter_map(|measure| match &measure.kind {
                MeasureKind::Ims(ims) => Some(ims.step.as_secs_f64()),
                _ => None,
            });
            assert_eq!(steps.collect::<Vec<f64>>(), [900.0], "{}", experiment.id);
        }
    }
}

/// A knee that follows from a study's figures is the largest step of all that it prints, or the claim says where it ends.
#[test]
fn knees_are_those_of_all_that_is_printed() {
    let mut looked_at = 0;
    for loaded in all() {
        for claim in &loaded.study.claims {
            let Some(test) = claim.test.as_ref().filter(|test| test.is == Kind::Knee) else { continue };
            let end = test.points.iter().find(|point| test.at.as_ref() == Some(&point.name)).unwrap();
            let [first, end] = [&test.points[0], end].map(|point| point.study.as_ref().unwrap());
            let table = loaded.study.table(end.table.as_ref().unwrap()).unwrap();
            let column = table.columns.iter().position(|name| Some(name) == end.column.as_ref()).unwrap();
            let row = table.rows.iter().position(|row| Some(&row.name) == end.row.as_ref()).unwrap();
            let (course, at): (Vec<Option<f64>>, usize) = if first.row == end.row {
                (table.rows[row].values.clone(), column)
            } else {
                (table.rows.iter().map(|row| row.values[column]).collect(), row)
            };
            let course: Vec<f64> = course.into_iter().map(Option::unwrap).collect();
            let steps: Vec<f64> = course.windows(2).map(|pair| pair[1] / pair[0]).collect();
            let largest = steps.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0 + 1;
            assert!(largest == at || claim.text.starts_with("Up to "), "{}: {steps:?}", claim.id);
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 3);
}

/// Wherever a claim is about the study's single server, it is read as one without virtualization.
#[test]
fn the_single_server_is_one_thing() {
    let loaded = open("consolidated-servers").unwrap();
    let tests = loaded.study.claims.iter().filter_map(|claim| claim.test.as_ref());
    let points = tests.flat_map(|test| test.all_groups()).flat_map(|group| group.points);
    let is_single = |point: &vtax_study::Point| {
        let column = point.study.as_ref().and_then(|place| place.column.as_deref());
        point.name == "single server" || column == Some("1")
    };
    let single: Vec<_> = points.filter(is_single).collect();
    assert!(single.len() >= 8, "{}", single.len());
    for point in single {
        assert_eq!(point.name, "single server");
        assert_eq!(point.ours.environment.as_deref(), Some("native"));
    }
}

/// Each of the study's machines had half of the host's memory, whichever server it was.
#[test]
fn machines_are_promised_half_of_the_hosts_memory() {
    let loaded = open("consolidated-servers").unwrap();
    let mut looked_at = 0;
    for experiment in &loaded.study.experiments {
        for mode in [Mode::Quick, Mode::Full] {
            let plan = plan(&loaded, experiment.plan(mode), &[]);
            let host = plan.budget.sut_memory;
            for cell in &plan.cells {
                let EnvironmentKind::Vm(vm) = &cell.environment.kind else { continue };
                assert_eq!(2 * vm.memory.0, host.0, "{}, {}", plan.name, cell.id);
                assert_eq!(cell.memory_limit(&plan.budget), Some(host), "{}, {}", plan.name, cell.id);
                looked_at += 1;
            }
        }
    }
    assert_eq!(looked_at, 2 * (3 + 6));
}

/// A claim is listed with the tables, figures and passages that its place names. The text of virtual-nas has headings instead of
/// numbers, and all of those that are named are listed.
#[test]
fn claims_are_listed_where_they_come_from() {
    let mut looked_at = 0;
    for loaded in all() {
        for claim in &loaded.study.claims {
            let parts = claim.place.split([',', ';']).map(str::trim);
            for part in parts.map(|part| part.strip_prefix("on ").unwrap_or(part)) {
                let Some(item) = loaded.study.items.iter().find(|item| item.id == part) else {
                    let heading = loaded.study.name == "virtual-nas" && part.starts_with("section ");
                    assert!(!heading, "{}: {part} is no item", claim.id);
                    continue;
                };
                assert!(item.claims.contains(&claim.id), "{}: {part} lacks {}", loaded.study.name, claim.id);
                looked_at += 1;
            }
        }
    }
    assert!(looked_at >= 50, "{looked_at}");
}

/// All five quick modes together, on two cores.
#[test]
fn quick_plans_end_within_three_quarters_of_an_hour() {
    let mut minutes = 0.0;
    for loaded in all() {
        for experiment in &loaded.study.experiments {
            let plan = plan(&loaded, &experiment.quick, &[]);
            let budget = plan.repeat.budget.unwrap_or_else(|| panic!("{}: no budget", plan.name));
            minutes += budget.as_secs_f64() / 60.0;
            assert!(plan.repeat.min >= 3, "{}: fewer trials make no interval", plan.name);
        }
    }
    assert!(minutes <= 45.0, "{minutes} minutes");
}

/// Six trials that lost nothing make an interval, five don't: a claim that is perfectly true can't be held by fewer.
#[test]
fn full_plans_can_tell_that_nothing_was_lost() {
    let mut looked_at = 0;
    for loaded in all() {
        for claim in &loaded.study.claims {
            let of_shares = |test: &&Test| matches!(test.is, Kind::Small | Kind::Large);
            let Some(test) = claim.test.as_ref().filter(of_shares) else { continue };
            assert!(test.modes.is_empty() || test.modes.contains(&Mode::Full), "{}", claim.id);
            let experiment = loaded.study.experiment(&test.experiment).unwrap();
            let plan = plan(&loaded, &experiment.full, &[]);
            assert!(plan.repeat.min as usize >= ENCLOSING, "{}: {} trials", claim.id, plan.repeat.min);
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 7);
}

/// Rules that are broken, by study. A change here means that data or rules changed: look at the source.
const BROKEN: [(&str, &[&str]); 5] = [
    (
        "virtual-servers",
        &[
            "unit-of-figure-36",
            "rate-of-figure-36",
            "unit-of-table-3",
            "bytes-of-table-3",
            "unit-of-table-6",
            "usage-above-received-6",
            "unit-of-table-7",
            "received-of-table-7",
            "unit-of-table-8",
            "unit-of-table-10",
            "usage-above-received-10",
            "unit-of-table-9",
            "less-cpu",
            "reads-below-the-wire-53",
            "reads-below-gigabit-54",
            "reads-below-gigabit-55",
            "writes-below-gigabit-53",
            "parent-and-children-53",
            "size-of-files",
            "same-processes",
        ],
    ),
    ("virtual-nas", &[]),
    (
        "virtualized-ims",
        &[
            "exhausted-at-capacity",
            "exhausted-at-capacity-virtual",
            "exhausted-at-capacity-fault-tolerant",
            "read-within-the-axis",
            "expiry-unit",
            "initial-load",
            "registration-rate",
            "number-of-steps",
            "time-of-steps",
            "memory-of-the-host",
            "times-are-positive",
            "part-within-the-whole",
            "given-up",
        ],
    ),
    (
        "consolidated-servers",
        &[
            "request-rates-agree",
            "ratio-is-the-quotient",
            "replies-below-requests",
            "constant-proportion",
            "constant-rate-asked",
            "memory-promised-three",
        ],
    ),
    (
        "virtual-links",
        &[
            "baseline-again",
            "mininet-again",
            "machines-below-the-wire",
            "physical-outperformed",
            "sdn-small-windows-xp",
            "sdn-small-together",
            "sdn-catches-up-windows-xp",
            "steadier",
        ],
    ),
];

#[test]
fn rules_find_the_defects_that_are_known() {
    for (name, expected) in BROKEN {
        let found = rules(&open(name).unwrap().study);
        let broken: Vec<&str> = found.iter().filter(|r| r.is_broken()).map(|r| r.id.as_str()).collect();
        assert_eq!(broken, expected, "{name}");
        let open = found.iter().flat_map(|rule| &rule.cases);
        let open = open.filter(|case| matches!(case.outcome, vtax_study::Outcome::Unknown(_)));
        assert_eq!(open.count(), 0, "{name}: a rule that can't be held against anything");
    }
}

/// The numbers of a data file that a report's chapter reads.
fn numbers(file: &str) -> Value {
    let text = std::fs::read_to_string(repository().join("studies").join(file)).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn printed(study: &str, table: &str, row: &str, column: &str) -> f64 {
    let loaded = open(study).unwrap();
    let table = loaded.study.table(table).unwrap_or_else(|| panic!("{study} has no table {table}"));
    let column = table.columns.iter().position(|name| name == column).unwrap();
    table.rows.iter().find(|known| known.name == row).unwrap().values[column].unwrap()
}

/// Figures that reports of single runs show are those that claims are judged beside.
#[test]
fn figures_are_the_same_as_in_the_reports_chapters() {
    let links = numbers("virtual-links/study.yaml");
    let windows = ["4K", "8K", "16K", "64K"];
    let mut compared = 0;
    for table in links["tables"].as_array().unwrap() {
        let id = table["number"].as_str().unwrap();
        for column in table["columns"].as_array().unwrap() {
            let name = column["name"].as_str().unwrap();
            for (at, window) in windows.iter().enumerate() {
                let theirs = column["means"][at].as_f64().unwrap();
                assert_eq!(printed("virtual-links", id, window, name), theirs, "{id} {window} {name}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4 * (3 + 4 + 2 + 3 + 5));

    let ims = numbers("virtualized-ims/study.yaml");
    for (key, column) in [("native", "native"), ("virtual", "virtual"), ("fault_tolerant", "fault-tolerant")]
    {
        let theirs = ims["capacities"][key].as_f64().unwrap();
        assert_eq!(printed("virtualized-ims", "4-1", "capacity", column), theirs);
    }

    let web = numbers("consolidated-servers/study.yaml");
    let rows = [
        ("IV", "response_ms", "response time"),
        ("IV", "requests_per_s", "request rate"),
        ("IV", "errors", "error count"),
        ("V", "requests_per_s", "request rate"),
        ("V", "replies_per_s", "reply rate"),
    ];
    for (table, key, row) in rows {
        let of = web["tables"].as_array().unwrap().iter().find(|t| t["number"] == table).unwrap();
        for line in of["rows"].as_array().unwrap() {
            let machines = line["machines"].as_u64().unwrap().to_string();
            let theirs = line[key].as_f64().unwrap();
            assert_eq!(printed("consolidated-servers", table, row, &machines), theirs, "{table} {key}");
        }
    }
}

#[test]
fn rates_of_servers_are_the_same_as_in_the_reports_chapters() {
    let loaded = open("virtual-servers").unwrap();
    for file in ["virtual-servers/study.yaml", "virtual-servers/desktops.yaml"] {
        for table in numbers(file)["tables"].as_array().unwrap() {
            let id = table["number"].as_str().map_or_else(|| table["number"].to_string(), str::to_owned);
            let own = loaded.study.table(&id).unwrap_or_else(|| panic!("no table {id}"));
            let theirs = table["rows"].as_array().unwrap();
            assert_eq!(own.rows.len(), theirs.len(), "{id}");
            for (own, theirs) in own.rows.iter().zip(theirs) {
                let theirs: Vec<Option<f64>> = theirs.as_array().unwrap().iter().map(Value::as_f64).collect();
                assert_eq!(own.values, theirs, "{id} {}", own.name);
            }
        }
    }
}

/// The schema that editors use. Set `VTAX_BLESS=1` to write it after a change that was meant.
#[test]
fn the_schema_is_that_of_the_model() {
    let path = repository().join("schema/study.schema.json");
    let now = serde_json::to_string_pretty(&vtax_study::schema()).unwrap() + "\n";
    if std::env::var_os("VTAX_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(now == before, "run this test with VTAX_BLESS=1 if the model was meant to change");
}
