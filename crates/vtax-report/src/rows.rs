//! The rows of the first table: every compared metric of every environment.

use vtax_plan::model::MeasureKind;
use vtax_store::summary::{Comparison, MetricSummary, Summary};

use crate::data::RunData;
use crate::families::{is_rate, metrics, named, rate_of, telling};
use crate::format::{known_tax, range, tax_range, typical};

/// More rows than this are no longer one table to take in.
pub(crate) const MOST_ROWS: usize = 24;

/// Why a percentile has no figure.
pub(crate) const TOO_FEW: &str = "fewer than ten answers of a trial are beyond it";

/// One line of the first table, shared by terminal, HTML and workbook.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Label of the group it belongs to.
    pub(crate) group: String,
    /// Id of the cell.
    pub(crate) cell: String,
    pub(crate) environment: String,
    /// Position of the cell in its group; 0 is the baseline.
    pub(crate) position: usize,
    pub(crate) measure: String,
    pub(crate) metric: &'static str,
    pub(crate) label: &'static str,
    pub(crate) primary: bool,
    pub(crate) value: Option<MetricSummary>,
    /// Whether its trials had too few answers for the percentile that this is.
    pub(crate) too_few: bool,
    /// `None` for the baseline.
    pub(crate) comparison: Option<Comparison>,
}

impl Row {
    /// `24.1k req/s`, `≥ 24.1k req/s`.
    pub(crate) fn value_text(&self) -> String {
        match &self.value {
            None if self.too_few => "too few answers".to_owned(),
            None => "no figure".to_owned(),
            Some(m) => typical(m.center, &m.unit, m.at_least),
        }
    }

    /// `23.5k–24.8k`, empty where there is none.
    pub(crate) fn interval_text(&self) -> String {
        self.value.as_ref().and_then(|m| m.interval.map(|i| range(m.center, i, &m.unit))).unwrap_or_default()
    }

    /// `1.02x`, `≥ 35x`, empty where there is none.
    pub(crate) fn tax_text(&self) -> String {
        let text = |c: &Comparison| known_tax(c.tax, c.at_least, c.at_most);
        self.comparison.as_ref().map(text).unwrap_or_default()
    }

    /// `0.98–1.06`, empty where there is none.
    pub(crate) fn tax_interval_text(&self) -> String {
        let interval = self.comparison.as_ref().and_then(|c| c.interval);
        interval.map_or_else(String::new, |(low, high)| tax_range(low, high))
    }
}

/// Every compared metric of every group, metric by metric, baseline first.
pub(crate) fn rows(data: &RunData, summary: &Summary) -> Vec<Row> {
    let mut rows = Vec::new();
    for group in data.groups() {
        for measure in data.measures() {
            for info in metrics().filter(|m| m.compared) {
                let of = |cell: &str| {
                    let found = summary.cells.iter().find(|s| s.cell == cell && s.measure == measure);
                    found.and_then(|s| s.metrics.get(info.name)).cloned()
                };
                let primary = info.primary && leads(data, measure, info.name);
                // What belongs into the first table and is missing there must not vanish without a word.
                let too_few = |cell: &str| {
                    primary && of(cell).is_none() && data.too_few(cell, measure, info.name).is_some()
                };
                if group.cells.iter().all(|c| of(&c.id).is_none() && !too_few(&c.id)) {
                    continue;
                }
                rows.extend(group.cells.iter().enumerate().map(|(position, cell)| {
                    Row {
                        group: group.label.clone(),
                        cell: cell.id.clone(),
                        environment: data.environment_label(cell),
                        position,
                        measure: measure.to_owned(),
                        metric: info.name,
                        label: info.label,
                        primary,
                        value: of(&cell.id),
                        too_few: too_few(&cell.id),
                        comparison: summary
                            .comparisons
                            .iter()
                            .find(|c| c.cell == cell.id && c.measure == measure && c.metric == info.name)
                            .cloned(),
                    }
                }));
            }
        }
    }
    rows
}

/// Whether a metric of that measure belongs to the first table: a search and a closed loop drive
/// the system to its limit, where latency and CPU time per request say little. A given load has no rate of its own.
pub(crate) fn leads(data: &RunData, measure: &str, metric: &str) -> bool {
    let kind = |name: &str| data.plan.measures.iter().find(|m| m.name == name).map(|m| &m.kind);
    match kind(measure) {
        Some(MeasureKind::Capacity(_)) => metric == "capacity",
        Some(MeasureKind::Throughput(_)) => metric == rate_of(&data.plan),
        Some(MeasureKind::Ims(_)) => metric == "doc",
        // Faults have a section of their own.
        Some(MeasureKind::Failover(_)) => false,
        Some(MeasureKind::Latency(_)) => !is_rate(metric),
        Some(MeasureKind::Network(_) | MeasureKind::Storage(_)) | None => true,
    }
}

/// Whether a comparison belongs to the first table.
pub(crate) fn is_of_first_table(data: &RunData, c: &Comparison) -> bool {
    named(&c.metric).is_some_and(|m| m.primary) && leads(data, &c.measure, &c.metric)
}

/// The comparison whose metric the headline and the first table are about: the first that the plan asks first, else the first of all,
/// which is of the plan's first measure or test.
pub(crate) fn leading<'a>(
    mut compared: impl Iterator<Item = &'a Comparison> + Clone,
) -> Option<&'a Comparison> {
    let asked = compared.clone().find(|c| c.asked_first);
    asked.or_else(|| compared.next())
}

/// What the headline is about, and the other metrics and measures.
pub(crate) fn first_and_rest<'a>(rows: &[&'a Row]) -> (Vec<&'a Row>, Vec<&'a Row>) {
    let lead = leading(rows.iter().filter_map(|r| r.comparison.as_ref()));
    let (metric, measure) =
        lead.map_or((rows[0].metric, &rows[0].measure), |c| (c.metric.as_str(), &c.measure));
    let measures: Vec<&str> =
        rows.iter().filter(|r| r.metric == metric).map(|r| r.measure.as_str()).collect();
    let measure = telling(metric, &measures).unwrap_or(measure);
    rows.iter().partition(|r| r.metric == metric && r.measure == measure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(measure: &str, metric: &'static str, asked_first: bool) -> Row {
        let comparison = Comparison {
            measure: measure.to_owned(),
            metric: metric.to_owned(),
            asked_first,
            ..Comparison::default()
        };
        Row { comparison: Some(comparison), position: 1, ..baseline(measure, metric) }
    }

    fn baseline(measure: &str, metric: &'static str) -> Row {
        Row {
            group: String::new(),
            cell: String::new(),
            environment: String::new(),
            position: 0,
            measure: measure.to_owned(),
            metric,
            label: "",
            primary: true,
            value: None,
            too_few: false,
            comparison: None,
        }
    }

    /// The headline of a plan whose first test were transactions was about TCP, and its table about round trips.
    #[test]
    fn the_first_test_leads_unless_the_plan_asks_for_another() {
        let rows = |asked| {
            [
                baseline("network/rr", "rtt_p50"),
                compared("network/rr", "rtt_p50", false),
                compared("network/rr", "rr_rate", false),
                compared("network/tcp", "tcp_goodput", asked),
            ]
        };
        let lead = |rows: &[Row]| {
            let all: Vec<&Row> = rows.iter().collect();
            let (first, rest) = first_and_rest(&all);
            assert_eq!(first.len() + rest.len(), rows.len());
            let compared = leading(rows.iter().filter_map(|r| r.comparison.as_ref())).unwrap();
            assert!(first.iter().all(|r| r.metric == compared.metric && r.measure == compared.measure));
            (first[0].metric, first.len())
        };
        assert_eq!(lead(&rows(false)), ("rtt_p50", 2));
        assert_eq!(lead(&rows(true)), ("tcp_goodput", 1));
    }
}
