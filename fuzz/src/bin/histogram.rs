//! Histograms of run directories: any bytes are refused, or give one that can be used.
//!
//! The first byte says whether the rest is a header's fields and counts, so that those are reached without guessing the format's first bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_load::LatencyHistogram;

fuzz_target!(|data: &[u8]| {
    let [kind, rest @ ..] = data else { return };
    let bytes = match kind % 3 {
        0 => rest.to_vec(),
        // HdrHistogram's V2 format: its first four bytes, and the length of what follows its other fields.
        1 => {
            let counts = u32::try_from(rest.len().saturating_sub(32)).unwrap_or(u32::MAX);
            [&0x1c84_9313_u32.to_be_bytes()[..], &counts.to_be_bytes(), rest].concat()
        }
        // The same with all fields as vtax writes them.
        _ => {
            let counts = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let fields = [0x1c84_9313, counts, 0, 3, 0, 1, 0x346, 0x30b8_a000, 0x3ff0_0000, 0];
            let mut bytes: Vec<u8> = fields.iter().flat_map(|field: &u32| field.to_be_bytes()).collect();
            bytes.extend_from_slice(rest);
            bytes
        }
    };
    let Ok(read) = LatencyHistogram::from_bytes(&bytes) else { return };
    assert!(read.quantile(0.5) <= read.max() && read.mean() <= read.max());
    let mut sum = LatencyHistogram::new();
    sum.add(&read);
    assert_eq!(sum.len(), read.len());
    let mut twice = read.clone();
    twice.merge(&read).expect("its own buckets are the same");
    assert_eq!(twice.len(), 2 * read.len());
    let text = read.to_base64().expect("one that was read can be written");
    assert_eq!(LatencyHistogram::from_base64(&text).map(|again| again.len()), Ok(read.len()));
});
