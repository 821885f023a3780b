//! Provenance, how to repeat the run, and the words of the page.

use vtax_plan::model::Plan;
use vtax_plan::{is_smoke_test, resuming};
use vtax_units::fact;

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::format::{quantity, utc};
use crate::markup::Markup;
use crate::shell::{quote, shell};

/// The chapter about where the numbers come from.
#[derive(Debug)]
pub(crate) struct Origin;

impl Chapter for Origin {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Origin, "provenance", "Where the numbers come from", provenance(context));
        page.put(Rank::Origin, "repeat", "Repeat it", repeat(context));
        page
    }
}

/// Facts of guests that are QEMU's version and command line.
const TOLD_OF_QEMU: [&str; 2] = [fact::VM_COMMAND, fact::VM_QEMU];
/// Interruptions that are listed.
const MOST_INTERRUPTIONS: usize = 20;

fn provenance(context: &Context) -> Markup {
    let (data, p) = (&context.data, &context.data.provenance);
    let mut list = List(Markup::new());
    list.0.open("dl", &[]);
    let commit = p.vtax_commit.as_ref().map_or_else(String::new, |c| format!(" ({c})"));
    list.put("vtax", &format!("{}{commit}", p.vtax_version));
    list.put("started", &utc(p.started_unix_ms));
    list.put("ended", &p.ended_unix_ms.map_or_else(|| "not complete".to_owned(), utc));
    for (from, to) in data.interruptions.iter().take(MOST_INTERRUPTIONS) {
        list.put("interrupted", &format!("{}, resumed {}", utc(*from), utc(*to)));
    }
    list.put("seed", &p.seed.to_string());
    let h = &p.host;
    list.put("processor", &format!("{}, {} CPUs", h.cpu_model, h.cpus));
    if let Some(quota) = h.cpu_quota {
        list.put("CPU quota", &format!("the time of {}", vtax_units::counted(quota as usize, "CPU")));
    }
    if let Some(threads) = h.threads_per_core.filter(|t| *t > 1) {
        list.put("threads per core", &format!("{threads}: neighbours share a core"));
    }
    list.put("memory", &quantity(h.memory_bytes as f64, "B"));
    list.put("system", &format!("{}, Linux {} {}", h.distribution, h.kernel, h.architecture));
    list.put("itself in", h.virtualization.as_deref().unwrap_or_default());
    list.put("frequency governor", h.governor.as_deref().unwrap_or_default());
    if let Some([a, b, c]) = h.load_average {
        list.put("load at the start", &format!("{a:.2}, {b:.2}, {c:.2} over 1, 5 and 15 minutes"));
    }
    if let Some(a) = &p.accelerator {
        list.put("accelerator", &format!("{}: {}", a.kind.to_uppercase(), a.reason));
    }
    for (name, program) in [("QEMU", &p.qemu), ("container runtime", &p.container_runtime)] {
        if let Some(program) = program {
            list.put(name, &program.version);
            list.code(&format!("{name}, command"), &shell(&program.command));
        }
    }
    for (cell, program) in &p.services {
        list.put(&format!("service in {cell}"), &program.version);
        list.code(&format!("service in {cell}, command"), &shell(&program.command));
        for (path, hash) in &program.files {
            list.put(&format!("service in {cell}, SHA-256 of {path}"), hash);
        }
    }
    for (name, node) in &p.nodes {
        let memory = quantity(node.memory_bytes as f64, "B");
        list.put(&format!("node {name}"), &format!("Linux {}, {} CPUs, {memory}", node.kernel, node.cpus));
        let sockets = node.sockets.iter().map(|(setting, value)| format!("{setting} {value}"));
        list.put(&format!("sockets of node {name}"), &sockets.collect::<Vec<_>>().join(", "));
    }
    for (prefix, facts) in
        [("limit on ", &p.limits), ("package ", &p.packages), ("variable ", &p.environment), ("", &p.facts)]
    {
        // QEMU was told above.
        let is_above = |name: &str| p.qemu.is_some() && TOLD_OF_QEMU.contains(&name);
        for (name, value) in facts.iter().filter(|(name, _)| !is_above(name)) {
            list.put(&format!("{prefix}{name}"), value);
        }
    }
    list.0.close("dl");
    list.0
}

struct List(Markup);

impl List {
    fn put(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.0.element("dt", &[], name).element("dd", &[], value);
        }
    }

    fn code(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.0.element("dt", &[], name);
            self.0.open("dd", &[]).element("code", &[], value).close("dd");
        }
    }
}

/// A command line without the directory that it wrote into: a run would refuse that, now that it is there.
fn without_directory(command_line: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = command_line.iter();
    while let Some(word) = words.next() {
        if word == "--out" {
            words.next();
        } else if !word.starts_with("--out=") {
            kept.push(word.clone());
        }
    }
    kept
}

/// What can be done with a run that is there, in this directory, and the commands that do it.
fn again(plan: &Plan, directory: &str) -> (&'static str, String) {
    let report = format!("vtax report {directory}");
    if is_smoke_test(plan) {
        return ("Write this report again:", report);
    }
    let said = "Go on where a run was cut short, or write this report again:";
    let (verb, on) = resuming(plan);
    (said, format!("vtax {verb} --resume {directory}{on}\n{report}"))
}

fn repeat(context: &Context) -> Markup {
    let p = &context.data.provenance;
    let directory = context.run.path().display().to_string();
    let mut m = Markup::new();
    m.element(
        "p",
        &[],
        "The same plan with the same seed gives the same order of trials and the same arrivals:",
    );
    let command = match p.command_line.is_empty() {
        false => shell(&without_directory(&p.command_line)),
        true => format!("vtax run {}", quote(p.plan_file.as_deref().unwrap_or("PLAN.yaml"))),
    };
    m.element("pre", &[("tabindex", "0")], &command);
    let (said, again) = again(&context.data.plan, &quote(&directory));
    m.element("p", &[], said);
    m.element("pre", &[("tabindex", "0")], &again);
    m.fixed("<p>Everything this page shows is in the run directory: <code>summary.json</code> for scripts, <code>trials/</code> with histograms, probes and, where the plan asked for them, every single request.</p>");
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_repeat_names_no_directory_that_is_there() {
        let of =
            |text: &str| without_directory(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
        let expected = "vtax run p.yaml --set repeat.min=5";
        assert_eq!(of("vtax run p.yaml --out runs/a --set repeat.min=5"), expected);
        assert_eq!(of("vtax run --out=runs/a p.yaml --set repeat.min=5"), expected);
        assert_eq!(of(expected), expected);
    }

    /// It would go on as no smoke test: nothing would say that its figures mean nothing.
    #[test]
    fn a_smoke_test_is_not_gone_on_with() {
        let text = "{vtax: 1, name: t, baseline: native, environments: [native, container], services: http, \
                    workload: {http: {target: /page/1}}, measure: [capacity], repeat: 3}";
        let plan = vtax_plan::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again(&plan, "runs/a").1, "vtax run --resume runs/a\nvtax report runs/a");
        // As a run it would be refused.
        let of_calibration = again(&vtax_plan::against_itself(&plan), "runs/a").1;
        assert_eq!(of_calibration, "vtax calibrate --resume runs/a\nvtax report runs/a");
        let of_smoke_test = again(&vtax_plan::smoke_test(&plan), "runs/a");
        assert_eq!(of_smoke_test, ("Write this report again:", "vtax report runs/a".to_owned()));
    }
}
