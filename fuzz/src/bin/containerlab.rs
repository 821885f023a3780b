//! Any bytes as a containerlab file: nodes and links that are consistent, or errors with places, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_plan::PlanErrors;
use vtax_plan::containerlab::parse;

fuzz_target!(|data: &[u8]| match parse("lab.clab.yml", data) {
    Ok(clab) => {
        let is_node = |name: &String| clab.nodes.iter().any(|node| node.name == *name);
        assert!(clab.links.iter().flat_map(|link| &link.ends).all(|(node, _)| is_node(node)));
    }
    Err(PlanErrors::Invalid(errors)) => {
        assert!(errors.iter().all(|e| e.line > 0 && e.column > 0 && !e.message.is_empty()));
    }
    Err(other) => panic!("{other}"),
});
