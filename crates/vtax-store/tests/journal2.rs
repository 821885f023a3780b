//! Every file of the kept runs of journal version 2 can be read.

use std::path::Path;

use vtax_store::RunDir;
use vtax_store::record::Validity;

#[test]
fn every_file_can_be_read() {
    for (name, trials) in [("web", 19), ("network", 7), ("sip", 13)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal2").join(name);
        let run = RunDir::open(path).unwrap();
        assert!(run.plan().unwrap().cells.len() == 2 && run.provenance().unwrap().host.cpus == 2);
        let records = run.trials().unwrap();
        assert_eq!(records.len(), trials, "{name}");
        assert_eq!(records.iter().filter(|r| r.validity != Validity::Valid).count(), 1, "{name}");
        let (mut samples, mut probes, mut intervals, mut phases, mut logs) = (0, 0, 0, 0, 0);
        for record in &records {
            let trial = run.trial(record.index);
            samples += trial.for_each_sample(|_| {}).unwrap();
            trial.for_each_probe_row(|_| probes += 1).unwrap();
            trial.for_each_interval(|_| intervals += 1).unwrap();
            trial.for_each_phase(|_| phases += 1).unwrap();
            logs += trial.logs().unwrap().len();
        }
        assert!(probes > 100, "{name}: {probes}");
        match name {
            "web" => assert!(samples > 900 && intervals > 100 && logs > 0),
            "sip" => assert!(phases > 5 && logs > 0),
            _ => assert_eq!((samples, phases, intervals), (0, 0, 0)),
        }
    }
}
