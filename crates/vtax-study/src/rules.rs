//! The study's own defects: what its numbers have to do with each other, and where that isn't so.

use crate::model::{Each, Expression, Place, Rule, Study};
use crate::quantity::Quantity;

/// A rule with everything it was held against.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleFound {
    /// Its id.
    pub id: String,
    /// What must hold, in words.
    pub text: String,
    /// One for each row or column; one alone where the rule has no `each`.
    pub cases: Vec<Case>,
}

/// One row or column that a rule was held against.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name; empty where there is one case only.
    pub name: String,
    /// Both sides, for people.
    pub sides: (String, String),
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is so.
    Holds,
    /// It isn't.
    Broken,
    /// It can't be told: a number is missing, or the sides count different things.
    Unknown(String),
}

impl RuleFound {
    /// Whether a case isn't so.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.cases.iter().any(|case| case.outcome == Outcome::Broken)
    }
}

/// All rules of a study, each held against its numbers.
#[must_use]
pub fn rules(study: &Study) -> Vec<RuleFound> {
    study.rules.iter().map(|rule| hold(study, rule)).collect()
}

/// The row or column at hand: what a place takes where it leaves something out.
#[derive(Debug, Clone, Default)]
struct Bound {
    table: Option<String>,
    row: Option<String>,
    column: Option<String>,
}

fn hold(study: &Study, rule: &Rule) -> RuleFound {
    let bounds = rule.each.as_ref().map_or_else(|| vec![Bound::default()], |each| bounds(study, each));
    let cases = bounds.iter().map(|bound| case(study, rule, bound)).collect();
    RuleFound { id: rule.id.clone(), text: rule.text.clone(), cases }
}

/// The rows or columns that a rule goes over.
fn bounds(study: &Study, each: &Each) -> Vec<Bound> {
    let table = Some(each.table.clone());
    if !each.columns.is_empty() {
        let columns = each.columns.iter();
        return columns
            .map(|column| Bound { table: table.clone(), row: None, column: Some(column.clone()) })
            .collect();
    }
    let rows: Vec<String> = if each.rows.is_empty() {
        study.table(&each.table).map(|t| t.rows.iter().map(|r| r.name.clone()).collect()).unwrap_or_default()
    } else {
        each.rows.clone()
    };
    rows.into_iter().map(|row| Bound { table: table.clone(), row: Some(row), column: None }).collect()
}

/// How the sides of a rule stand to each other.
enum Relation {
    Equals,
    AtMost,
    Above,
}

fn case(study: &Study, rule: &Rule, bound: &Bound) -> Case {
    let name = bound.row.clone().or_else(|| bound.column.clone()).unwrap_or_default();
    let sides = [
        (Relation::Equals, rule.equals.as_ref()),
        (Relation::AtMost, rule.at_most.as_ref()),
        (Relation::Above, rule.above.as_ref()),
    ];
    let found = sides.into_iter().find_map(|(relation, sides)| Some((relation, sides?)));
    let Some((relation, [left, right])) = found else {
        return unknown(name, "the rule compares nothing");
    };
    let (left, right) = match (evaluate(study, left, bound), evaluate(study, right, bound)) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(why), _) | (_, Err(why)) => return unknown(name, &why),
    };
    let texts = (left.text(), right.text());
    if !left.is_like(&right) {
        let outcome = Outcome::Unknown("its sides count different things".to_owned());
        return Case { name, sides: texts, outcome };
    }
    let allowed = match allowed(study, rule, bound, &right) {
        Ok(allowed) => allowed,
        Err(why) => return Case { name, sides: texts, outcome: Outcome::Unknown(why) },
    };
    let holds = match relation {
        Relation::Equals => (left.value - right.value).abs() <= allowed,
        Relation::AtMost => left.value <= right.value + allowed,
        Relation::Above => left.value > right.value,
    };
    Case { name, sides: texts, outcome: if holds { Outcome::Holds } else { Outcome::Broken } }
}

fn unknown(name: String, why: &str) -> Case {
    Case { name, sides: (String::new(), String::new()), outcome: Outcome::Unknown(why.to_owned()) }
}

/// How far apart both sides may be, in base units. Numbers in a computer aren't exact, either.
fn allowed(study: &Study, rule: &Rule, bound: &Bound, right: &Quantity) -> Result<f64, String> {
    let exactness = right.value.abs() * 1e-9;
    let within = match &rule.within {
        None => 0.0,
        Some(within) => {
            let within = evaluate(study, within, bound)?;
            if !within.is_like(right) {
                return Err("what it may be off counts something else".to_owned());
            }
            within.value
        }
    };
    let share = rule.within_share.unwrap_or(0.0) * right.value.abs();
    Ok(within.max(share) + exactness)
}

/// The number that an expression comes to.
fn evaluate(study: &Study, expression: &Expression, bound: &Bound) -> Result<Quantity, String> {
    let Expression { cell, value, unit, sum, mean, most, product, quotient } = expression;
    if let Some(place) = cell {
        return at(study, place, bound);
    }
    if let Some(value) = value {
        return Ok(Quantity::new(*value, unit.as_deref().unwrap_or("1")));
    }
    let all = |parts: &[Expression]| -> Result<Vec<Quantity>, String> {
        parts.iter().map(|part| evaluate(study, part, bound)).collect()
    };
    if let Some(parts) = sum {
        return total(&all(parts)?);
    }
    if let Some(parts) = mean {
        let parts = all(parts)?;
        let share = 1.0 / parts.len().max(1) as f64;
        return total(&parts).map(|sum| sum.scaled(share));
    }
    if let Some(parts) = most {
        let parts = all(parts)?;
        let largest = parts.into_iter().max_by(|a, b| a.value.total_cmp(&b.value));
        return largest.ok_or_else(|| "nothing to choose from".to_owned());
    }
    if let Some(parts) = product {
        let parts = all(parts)?;
        return Ok(parts.iter().fold(Quantity::new(1.0, "1"), |product, part| product.times(part)));
    }
    if let Some(parts) = quotient {
        let parts = all(parts)?;
        let [dividend, divisor] = parts.as_slice() else {
            return Err("a quotient is of two".to_owned());
        };
        return dividend.over(divisor).ok_or_else(|| "it divides by zero".to_owned());
    }
    Err("an expression says nothing".to_owned())
}

fn total(parts: &[Quantity]) -> Result<Quantity, String> {
    let (first, rest) = parts.split_first().ok_or_else(|| "nothing to add up".to_owned())?;
    rest.iter().try_fold(first.clone(), |sum, part| {
        sum.plus(part).ok_or_else(|| "it adds up different things".to_owned())
    })
}

/// The cell at a place, with what `bound` says where the place leaves something out.
fn at(study: &Study, place: &Place, bound: &Bound) -> Result<Quantity, String> {
    let chosen = |own: &Option<String>, other: &Option<String>, what: &str| {
        own.clone().or_else(|| other.clone()).ok_or_else(|| format!("a cell without a {what}"))
    };
    let table = chosen(&place.table, &bound.table, "table")?;
    let row = chosen(&place.row, &bound.row, "row")?;
    let column = chosen(&place.column, &bound.column, "column")?;
    study.cell(&table, &row, &column)
}

impl Study {
    /// A cell of a table, with its unit.
    ///
    /// # Errors
    ///
    /// What is missing, in words.
    pub fn cell(&self, table: &str, row: &str, column: &str) -> Result<Quantity, String> {
        self.raw(table, row, column).map(|(value, unit)| Quantity::new(value, unit))
    }

    /// A number as it stands in a table, and its unit.
    fn raw(&self, table: &str, row: &str, column: &str) -> Result<(f64, &str), String> {
        let found = self.table(table).ok_or_else(|| format!("there is no table `{table}`"))?;
        let place = found.columns.iter().position(|name| name == column);
        let place = place.ok_or_else(|| format!("table `{table}` has no column `{column}`"))?;
        let line = found.rows.iter().find(|line| line.name == row);
        let line = line.ok_or_else(|| format!("table `{table}` has no row `{row}`"))?;
        let value = line.values.get(place).copied().flatten();
        let value = value.ok_or_else(|| format!("table `{table}` prints nothing at `{row}`, `{column}`"))?;
        Ok((value, line.unit.as_deref().unwrap_or(&found.unit)))
    }

    /// The study's figure at a place that names all of table, row and column; `None` where there is none.
    #[must_use]
    pub fn figure(&self, place: &Place) -> Option<Quantity> {
        self.cell(place.table.as_deref()?, place.row.as_deref()?, place.column.as_deref()?).ok()
    }

    /// The same as the study prints it, in the unit of its table or row: `792 MiB`, `46.76 %`.
    #[must_use]
    pub fn as_printed(&self, place: &Place) -> Option<String> {
        let (table, row, column) = (place.table.as_deref()?, place.row.as_deref()?, place.column.as_deref()?);
        let (value, unit) = self.raw(table, row, column).ok()?;
        Some(if unit == "1" { value.to_string() } else { format!("{value} {unit}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"
version: 1
name: small
source: {title: T, authors: [A], publisher: P, kind: report}
question: Q
items: []
tables:
  - {id: a, item: table 1, unit: KB/s, columns: [usage, sent, received], rows: [{name: r1, values: [7, 3, 4]}, {name: r2, values: [9, 3, 4]}]}
  - {id: b, item: table 1, unit: "1", columns: [x], rows: [{name: rate, unit: /s, values: [59]}, {name: none, values: [null]}]}
experiments: []
claims: []
rules:
  - {id: sum, text: t, each: {table: a}, equals: [{cell: {column: usage}}, {sum: [{cell: {column: sent}}, {cell: {column: received}}]}]}
  - {id: wire, text: t, each: {table: a, columns: [usage]}, at_most: [{cell: {row: r1}}, {value: 100, unit: Mbit/s}]}
  - {id: unit, text: t, equals: [{value: 7, unit: Mbit/s}, {cell: {table: a, row: r1, column: usage}}], within: {value: 1, unit: kbit/s}}
  - {id: kinds, text: t, equals: [{value: 7, unit: s}, {cell: {table: a, row: r1, column: usage}}]}
  - {id: hole, text: t, above: [{cell: {table: b, row: none, column: x}}, {value: 1}]}
  - {id: nowhere, text: t, above: [{cell: {table: b, row: other, column: x}}, {value: 1}]}
"#;

    #[test]
    fn a_figure_is_told_as_it_is_printed() {
        let printed = |study: &str, [table, row, column]: [&str; 3]| {
            let [table, row, column] = [table, row, column].map(|part| Some(part.to_owned()));
            crate::open(study).unwrap().study.as_printed(&Place { table, row, column })
        };
        let links = |column: &str| printed("virtual-links", ["III", "64K", column]);
        assert_eq!(links("Linux 1GB").as_deref(), Some("10980 MiB"));
        assert_eq!(links("none"), None);
        let cpu = printed("virtual-servers", ["cpu", "FTP at PE-1", "high"]);
        assert_eq!(cpu.as_deref(), Some("46.76 %"));
        let errors = printed("consolidated-servers", ["IV", "error count", "3"]);
        assert_eq!(errors.as_deref(), Some("4788"));
        // A row has a unit of its own.
        let took = printed("consolidated-servers", ["IV", "response time", "1"]);
        assert_eq!(took.as_deref(), Some("0.4 ms"));
    }

    #[test]
    fn rules_hold_break_or_can_not_be_told() {
        let study: Study = serde_saphyr::from_str(STUDY).unwrap();
        let found = rules(&study);
        let outcomes = |at: usize| found[at].cases.iter().map(|c| c.outcome.clone()).collect::<Vec<_>>();
        assert_eq!(outcomes(0), [Outcome::Holds, Outcome::Broken]);
        assert_eq!((found[0].cases[1].name.as_str(), found[0].is_broken()), ("r2", true));
        assert_eq!(outcomes(1), [Outcome::Holds]);
        assert_eq!(outcomes(2), [Outcome::Broken]);
        assert_eq!(found[2].cases[0].sides.1, "56 kbit/s");
        for rule in found.iter().skip(3) {
            let unknown = rule.cases.iter().all(|case| matches!(case.outcome, Outcome::Unknown(_)));
            assert!(unknown && rule.cases.len() == 1 && !rule.is_broken(), "{}", rule.id);
        }
    }
}
