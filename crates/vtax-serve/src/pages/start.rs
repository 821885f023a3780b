//! Starting runs: choose a plan, see what it would do, start it, watch it, stop it.

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use vtax_report::markup::Markup;

use super::shell::{self, choice};
use crate::app::{App, Fields, with_cost};
use crate::jobs::{Choice, Job, Jobs};
use crate::refusal::Refusal;

/// The form, with what was chosen before.
pub(crate) fn choose(jobs: &Jobs, query: &Fields) -> Result<String, Refusal> {
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let mut m = Markup::new();
    m.element("h1", &[], "Start a run").add(&form(jobs, text("plan"), text("changes")));
    m.add(&started(jobs));
    Ok(shell::with_foot("Start", "/start", &m, true, None))
}

fn form(jobs: &Jobs, plan: &str, changes: &str) -> Markup {
    let plans: Vec<(String, String)> = jobs.plans().into_iter().map(|p| (p.clone(), p)).collect();
    let mut m = Markup::new();
    if plans.is_empty() {
        m.element(
            "p",
            &[],
            "There is no plan here. `vtax serve --allow-run --plans DIR` names a directory that has some.",
        );
        return m;
    }
    m.open("form", &[("method", "post"), ("action", "/start"), ("class", "start")]);
    m.add(&choice("Plan", "plan", &plans, plan));
    m.open("label", &[]).text("Changes, one a line, as --set takes them ");
    m.element("textarea", &[("name", "changes"), ("rows", "4"), ("spellcheck", "false")], changes);
    m.close("label").open("p", &[]);
    m.element("button", &[("type", "submit"), ("name", "do"), ("value", "check")], "Check").text(" ");
    m.element("button", &[("type", "submit"), ("name", "do"), ("value", "start")], "Start").close("p");
    m.close("form");
    m
}

fn started(jobs: &Jobs) -> Markup {
    let mut m = Markup::new();
    let all = jobs.all();
    if all.is_empty() {
        return m;
    }
    m.element("h2", &[], "Started here").open("ul", &[]);
    for job in all {
        m.open("li", &[]);
        let name = job.directory.display().to_string();
        m.element("a", &[("href", &format!("/job/{}", job.number))], &name).text(": ");
        m.text(&job.ended().unwrap_or_else(|| "running".to_owned())).close("li");
    }
    m.close("ul");
    m
}

/// Checks or starts what the form says.
pub(crate) fn post(app: &App, fields: &Fields) -> Result<Response, Refusal> {
    let jobs = app.jobs()?;
    let text = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let choice = jobs.choice(text("plan"), text("changes"))?;
    match text("do") {
        "check" => Ok(Html(checked(app, jobs, &choice)).into_response()),
        "start" => Ok(go_to(&format!("/job/{}", jobs.start(&choice)?.number))),
        _ => Err(Refusal::unclear("`check` or `start` is expected.")),
    }
}

/// After a POST a page of its own, so that loading it again does nothing again.
fn go_to(place: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(value) = HeaderValue::from_str(place) {
        response.headers_mut().insert(LOCATION, value);
    }
    response
}

fn checked(app: &App, jobs: &Jobs, choice: &Choice) -> String {
    let mut m = Markup::new();
    m.element("h1", &[], "What it would do").add(&form(jobs, &choice.plan, &choice.changes.join("\n")));
    match jobs.check(choice) {
        Ok(text) => {
            m.element("pre", &[("tabindex", "0"), ("id", "check")], &text);
            if let Ok(directory) = jobs.directory(choice) {
                m.element("h2", &[], "In a terminal");
                m.element("pre", &[("tabindex", "0")], &jobs.command(choice, &directory));
            }
        }
        Err(errors) => {
            m.element("p", &[("class", "warning")], "This plan can't be run.");
            m.element("pre", &[("tabindex", "0"), ("id", "check")], &errors);
        }
    }
    with_cost(app, "Check", "/start", &m)
}

/// A run that was started here.
pub(crate) fn job(app: &App, number: u32) -> Result<String, Refusal> {
    let job = app.jobs()?.job(number)?;
    let ended = job.ended();
    let mut m = Markup::new();
    m.element("h1", &[], &job.directory.display().to_string());
    // Whether its run is complete, the run's own page says.
    let state = if ended.is_some() { "ended" } else { "running" };
    m.open("p", &[]).element("span", &[("class", "state"), ("data-state", state)], state);
    m.text(&format!(" {}", ended.as_deref().unwrap_or_default())).close("p").add(&ways(app, &job));
    if ended.is_none() {
        m.open("form", &[("method", "post"), ("action", &format!("/job/{number}/stop"))]);
        m.element("button", &[("type", "submit")], "Stop").close("form");
    }
    m.element("h2", &[], "In a terminal").element("pre", &[("tabindex", "0")], &job.command);
    m.element("h2", &[], "What it printed").element("pre", &[("tabindex", "0")], &job.output());
    Ok(with_cost(app, "Run", "/start", &m))
}

/// The way to the run's own page, once there is a run.
fn ways(app: &App, job: &Job) -> Markup {
    let known = app.index.known();
    let entry = known.runs.iter().find(|entry| app.index.path(entry) == job.directory);
    let mut m = Markup::new();
    match (entry, job.ended()) {
        (Some(entry), _) => {
            m.open("p", &[("class", "ways")]);
            m.element("a", &[("href", &format!("/run/{}", entry.id))], "Follow it").close("p")
        }
        // The script looks again after so many seconds; without it, whoever reads this does.
        (None, None) => m
            .open("p", &[("class", "ways"), ("data-again", "2")])
            .text("Its directory isn't there yet: load this page again.")
            .close("p"),
        (None, Some(_)) => m.element("p", &[("class", "ways")], "It made no run directory."),
    };
    m
}

/// Stops it.
pub(crate) fn stop(jobs: &Jobs, number: u32) -> Result<Response, Refusal> {
    let job = jobs.stop(number)?;
    Ok(go_to(&format!("/job/{}", job.number)))
}
