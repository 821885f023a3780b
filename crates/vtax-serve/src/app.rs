//! Routes, and what all of them share.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use tokio::sync::Semaphore;
use vtax_report::Report;
use vtax_report::compare::{CompareError, Options as Comparing, compare};
use vtax_store::RunStamp;

use crate::cost::Cost;
use crate::guard::{FOREIGN, Guard, guard};
use crate::index::{Entry, Index, RunId};
use crate::jobs::Jobs;
use crate::pages::{assets, history, list, run, shell, start};
use crate::refusal::Refusal;
use crate::watched::{Watched, not_too_long};
use crate::{events, metrics};

/// Longest body of a request, in bytes.
const BODY: usize = 16 << 10;
/// Clients that follow a run at a time.
const FOLLOWERS: usize = 32;
/// Reports that are made at a time: the server has one CPU.
const DRAWN: usize = 1;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) guard: Guard,
    pub(crate) index: Index,
    pub(crate) watched: Watched,
    pub(crate) jobs: Option<Jobs>,
    pub(crate) cost: Cost,
    followers: Arc<Semaphore>,
    drawn: Arc<Semaphore>,
}

/// [`App`], as handlers get it.
pub(crate) type Shared = Arc<App>;

/// Names and values of a query or a form.
pub(crate) type Fields = BTreeMap<String, String>;

impl App {
    pub(crate) fn new(guard: Guard, index: Index, jobs: Option<Jobs>) -> Self {
        Self {
            guard,
            index,
            watched: Watched::default(),
            jobs,
            cost: Cost::begin(),
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            drawn: Arc::new(Semaphore::new(DRAWN)),
        }
    }

    /// The run that an address names.
    pub(crate) fn entry(&self, id: &str) -> Result<Arc<Entry>, Refusal> {
        let found = RunId::parse(id).and_then(|id| self.index.find(id));
        found.ok_or_else(|| Refusal::missing("run of that name below the directory that is served"))
    }

    /// Clients that follow a run.
    pub(crate) fn followers(&self) -> usize {
        FOLLOWERS - self.followers.available_permits()
    }

    /// What starts runs.
    pub(crate) fn jobs(&self) -> Result<&Jobs, Refusal> {
        self.jobs
            .as_ref()
            .ok_or_else(|| Refusal::missing("such page: runs can be started with --allow-run only"))
    }
}

/// Everything that can be asked for.
pub(crate) fn router(app: &Shared) -> Router {
    Router::new()
        .route("/", get(show_list))
        .route("/run/{id}", get(show_run))
        .route("/run/{id}/progress", get(show_progress))
        .route("/run/{id}/events", get(follow))
        .route("/run/{id}/report", get(show_report))
        .route("/run/{id}/summary.json", get(give_summary))
        .route("/compare", get(show_comparison))
        .route("/history", get(show_history))
        .route("/start", get(show_start).post(check_or_start))
        .route("/job/{number}", get(show_job))
        .route("/job/{number}/stop", post(stop_job))
        .route("/metrics", get(give_metrics))
        .route("/favicon.ico", get(give_no_icon))
        .route("/assets/page.css", get(give_style))
        .route("/assets/page.js", get(give_script))
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(app), guard))
        .with_state(Arc::clone(app))
}

/// Does what reads files on a thread for that. What panics there ends the request and nothing else.
async fn apart<T: Send + 'static>(
    app: &Shared,
    work: impl FnOnce(&Shared) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let app = Arc::clone(app);
    tokio::task::spawn_blocking(move || work(&app)).await.unwrap_or_else(|_| Err(Refusal::bug()))
}

/// Does what takes long beside the requests, one at a time.
async fn drawn<T: Send + 'static>(
    app: &Shared,
    work: impl FnOnce(&Shared) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let place = Arc::clone(&app.drawn).acquire_owned().await.map_err(|_| Refusal::bug())?;
    // The work has it, and not the request: that ends where the client leaves, and the work goes on.
    let work = move |app: &Shared| {
        let _place = place;
        work(app)
    };
    apart(app, work).await
}

/// A page of the server's own.
fn own(page: String) -> Response {
    Html(page).into_response()
}

/// A page made of runs, which may do nothing.
fn foreign(page: String) -> Response {
    ([(CONTENT_SECURITY_POLICY, FOREIGN)], Html(page)).into_response()
}

async fn show_list(State(app): State<Shared>, Query(query): Query<Fields>) -> Result<Response, Refusal> {
    apart(&app, move |app| list::page(app, &query)).await.map(own)
}

async fn show_run(State(app): State<Shared>, Path(id): Path<String>) -> Result<Response, Refusal> {
    let page = drawn(&app, move |app| {
        let entry = app.entry(&id)?;
        run::page(app, &entry)
    });
    page.await.map(own)
}

async fn show_progress(State(app): State<Shared>, Path(id): Path<String>) -> Result<Response, Refusal> {
    let drawn = drawn(&app, move |app| {
        let entry = app.entry(&id)?;
        Ok(app.watched.markup(&app.index, &entry)?.into_string())
    });
    drawn.await.map(own)
}

async fn follow(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<Fields>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let entry = apart(&app, move |app| app.entry(&id)).await?;
    let permit = Arc::clone(&app.followers).try_acquire_owned().map_err(|_| {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format!("{FOLLOWERS} clients follow runs already."))
    })?;
    let last = events::EventId::of(&headers, query.get("after").map(String::as_str));
    Ok(events::follow(&app.index.path(&entry), last, permit))
}

/// Reads a run in full.
fn report(app: &Shared, id: &str) -> Result<Report, Refusal> {
    let entry = app.entry(id)?;
    not_too_long(RunStamp::of(&app.index.path(&entry)))?;
    Ok(Report::read(&app.index.run(&entry)?)?)
}

async fn show_report(State(app): State<Shared>, Path(id): Path<String>) -> Result<Response, Refusal> {
    drawn(&app, move |app| Ok(report(app, &id)?.html())).await.map(foreign)
}

async fn give_summary(State(app): State<Shared>, Path(id): Path<String>) -> Result<Response, Refusal> {
    let json = drawn(&app, move |app| Ok(report(app, &id)?.json())).await?;
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}

async fn show_comparison(
    State(app): State<Shared>,
    Query(query): Query<Fields>,
) -> Result<Response, Refusal> {
    let made = drawn(&app, move |app| {
        let id = |name: &str| {
            query.get(name).cloned().ok_or_else(|| Refusal::unclear("Choose two runs, A and B."))
        };
        let (a, b) = (report(app, &id("a")?)?, report(app, &id("b")?)?);
        match compare(&a, &b, &Comparing::default()) {
            Ok(comparison) => Ok(Ok(comparison.html())),
            Err(CompareError::Refused(refusal)) => Ok(Err(history::refused(&refusal))),
            Err(error) => Err(Refusal::unclear(error.to_string())),
        }
    });
    Ok(match made.await? {
        Ok(page) => foreign(page),
        Err(page) => (StatusCode::CONFLICT, own(page)).into_response(),
    })
}

async fn show_history(State(app): State<Shared>, Query(query): Query<Fields>) -> Result<Response, Refusal> {
    drawn(&app, move |app| history::page(app, &query)).await.map(own)
}

async fn show_start(State(app): State<Shared>, Query(query): Query<Fields>) -> Result<Response, Refusal> {
    apart(&app, move |app| start::choose(app.jobs()?, &query)).await.map(own)
}

async fn check_or_start(
    State(app): State<Shared>,
    form: Result<axum::Form<Fields>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Refusal> {
    let axum::Form(fields) = form.map_err(|e| Refusal::new(e.status(), e.body_text()))?;
    apart(&app, move |app| start::post(app, &fields)).await
}

async fn show_job(State(app): State<Shared>, Path(number): Path<u32>) -> Result<Response, Refusal> {
    apart(&app, move |app| start::job(app, number)).await.map(own)
}

async fn stop_job(State(app): State<Shared>, Path(number): Path<u32>) -> Result<Response, Refusal> {
    apart(&app, move |app| start::stop(app.jobs()?, number)).await
}

async fn give_metrics(State(app): State<Shared>) -> Result<Response, Refusal> {
    let text = apart(&app, |app| Ok(metrics::text(app))).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

async fn give_style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], assets::style()).into_response()
}

async fn give_script() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], assets::SCRIPT).into_response()
}

/// Browsers ask for one where a page names none.
async fn give_no_icon() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn nothing() -> Refusal {
    Refusal::missing("such page")
}

/// The page at the foot of which the server's own cost is told.
pub(crate) fn with_cost(app: &App, title: &str, here: &str, body: &vtax_report::markup::Markup) -> String {
    shell::with_foot(title, here, body, app.jobs.is_some(), Some((app.cost.spent(), app.index.root())))
}
