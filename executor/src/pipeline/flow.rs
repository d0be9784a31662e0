//! A pipeline while its code is written: what it reads, the code so far, and the columns of the row at hand.
//!
//! More than 400 lines because all that writes a pipeline's code is one type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::Array;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use tenon_gpu::pipeline::PipelineCode;
use tenon_gpu::tuning::PIPELINE_TILE;
use tenon_storage::{Segment, TableVersion};

use super::col::Col;
use super::counted::CountedNode;
use super::fragment::{Fragment, Input, Pipeline, Source, Step};
use super::made::Made;
use super::on_host::OnHost;
use super::passes::Stage;
use super::stored::Stored;
use crate::codegen::{Given, Inputs, Translated, Translator};

/// What the code calls where a text's bytes are in an array of the fragment's own.
pub const SHORT_TEXT: &str = "short_text(";

pub struct Flow {
    pub translator: Translator,
    pub columns: Vec<Col>,
    pub source: Source,
    /// At most so many rows are read: what bounds of sums are proven by.
    pub rows_max: u64,
    /// At most so many are there, as far as is known: what a table that they end in gets room for.
    pub room: u64,
    /// When its rows are there.
    pub stage: Stage,
    /// So many rows go on, as the planner expects.
    pub expected: Option<u64>,
    /// Whether a row of the source may come more than once.
    pub multiplied: bool,
    inputs: Vec<Input>,
    named: HashMap<Input, usize>,
    tile: String,
    pub begin: String,
    pub end: String,
    pub shared_bytes: u32,
    /// How what is open ends, the innermost last.
    open: Vec<String>,
    /// Code up to where rows are listed that have passed the first conditions.
    first: Option<String>,
    /// Whether a row that passes has far to go.
    pub far: bool,
    /// Whether it keeps where texts are, for others to read them there.
    pub keeps_texts: bool,
    /// Whether the host reads the rows that it ends in.
    pub to_host: bool,
    /// Nodes whose rows are counted here, each with its counter; the latest one, and the code's length after it.
    pub counted: Vec<(usize, usize)>,
    pub counter: Option<(usize, usize)>,
}

impl Flow {
    pub fn new(source: Source, schema: SchemaRef, rows_max: u64) -> Self {
        Self {
            translator: Translator::new(schema, Inputs::Row(vec![])),
            columns: vec![],
            source,
            rows_max,
            room: rows_max,
            expected: None,
            stage: Stage::Once,
            multiplied: false,
            inputs: vec![],
            named: HashMap::new(),
            tile: String::new(),
            begin: String::new(),
            end: String::new(),
            shared_bytes: 0,
            open: vec![],
            first: None,
            far: false,
            keeps_texts: false,
            to_host: false,
            counted: vec![],
            counter: None,
        }
    }

    /// The rows of a table that was made before.
    pub fn over(made: &Made, schema: SchemaRef) -> Self {
        let source = Source::Made {
            count: made.count,
            room: made.room,
        };
        Self {
            room: made.room,
            stage: made.stage,
            ..Self::new(source, schema, made.rows_max)
        }
    }

    /// The number by which the code knows an input.
    pub fn input(&mut self, input: Input) -> usize {
        let next = self.inputs.len();
        let at = *self.named.entry(input.clone()).or_insert(next);
        if at == next {
            self.inputs.push(input);
        }
        at
    }

    /// C++ of an array.
    pub fn array(&mut self, input: Input, element: &str) -> String {
        let at = self.input(input);
        format!("p.array<{element}>({at})")
    }

    /// Reads rows that have other columns, too, from this number on.
    pub fn beside<T>(
        &mut self,
        others: Vec<Col>,
        read: impl FnOnce(&mut Self, usize) -> Translated<T>,
    ) -> Translated<T> {
        let (schema, before) = (self.translator.schema.clone(), self.current());
        let columns = before.iter().cloned().chain(others).collect();
        self.enter(schema.clone(), columns);
        let found = read(self, before.len());
        self.enter(schema, before);
        found
    }

    /// C++ of the first value that the pass's keys have, and of the last.
    pub fn pass_bounds(&mut self) -> (String, String) {
        let (first, last) = (self.input(Input::First), self.input(Input::Last));
        (format!("(i64)p.inputs[{first}]"), format!("(i64)p.inputs[{last}]"))
    }

    /// Only rows go on whose value of this column, the scan's own, is one of the pass; a row without one is of the first.
    pub fn only_in_pass(&mut self, key: Col) -> Translated<()> {
        let (value, word) = self.beside(vec![key], |flow, at| {
            let value = flow.translator.value_of(at)?;
            let (word, _) = flow.word(&value)?;
            Ok((value, word))
        })?;
        let (first, last) = self.pass_bounds();
        let within = format!("{word} >= {first} && {word} <= {last}");
        match &value.null {
            None => self.only_if(&within),
            Some(null) => {
                let is_first = self.input(Input::IsFirst);
                self.only_if(&format!("({null} ? p.inputs[{is_first}] != 0 : {within})"));
            }
        }
        self.stage = Stage::Pass;
        Ok(())
    }

    /// C++ of a number.
    pub fn number(&mut self, number: u64) -> String {
        let at = self.input(Input::Number(number));
        format!("p.inputs[{at}]")
    }

    /// Column `column` of scan `scan`, whose row is the pipeline's own.
    pub fn scanned(&mut self, fragment: &mut Fragment, scan: usize, column: usize) -> Translated<Col> {
        let table = Arc::clone(&fragment.scans[scan].table);
        let data_type = table.schema().field(column).data_type();
        let Ok(stored) = Stored::of(&table, column) else {
            return Ok(Col::handed_on(data_type, (scan, column), "position".into()));
        };
        let input = fragment.column(scan, column);
        let fresh = !self.named.contains_key(&input);
        let at = self.input(input);
        let name = format!("s{at}");
        if fresh {
            self.tile += &format!("        const Segment {name} = p.segment({at}, tile.segment);\n");
        }
        Ok(Col {
            given: stored.given(data_type, &name, "row", is_nullable(&table, column)),
            origin: Some((scan, column)),
            position: Some("position".into()),
            unique: is_unique(&table, column),
            aggregated: None,
            equals: Some((scan, column)),
            on_host: None,
        })
    }

    /// A column of a scan whose row is elsewhere, by its position: a text, or what is handed on.
    pub fn late(&mut self, fragment: &mut Fragment, (scan, column): (usize, usize), position: String) -> Col {
        let table = Arc::clone(&fragment.scans[scan].table);
        let data_type = table.schema().field(column).data_type().clone();
        if data_type != DataType::Utf8View {
            return Col::handed_on(&data_type, (scan, column), position);
        }
        if table.segments().is_empty() {
            // It has no row that could be read: those of a join are missing.
            let none = Given::new(data_type.clone(), "Text()".into(), Some("true".into()), None);
            return Col {
                given: none,
                ..Col::handed_on(&data_type, (scan, column), position)
            };
        }
        let input = fragment.column(scan, column);
        let (column_at, tiles_at) = (self.input(input), self.input(Input::Tiles(scan)));
        let arguments = format!("p, {column_at}, {tiles_at}, {position}");
        let null = is_nullable(&table, column).then(|| format!("late_null({arguments})"));
        Col {
            given: Given::new(data_type, format!("late_text({arguments})"), null, None),
            origin: Some((scan, column)),
            position: Some(position),
            unique: false,
            aggregated: None,
            equals: None,
            on_host: None,
        }
    }

    /// Any column of a scan whose row is elsewhere, by its position.
    pub fn in_place(&mut self, fragment: &mut Fragment, origin: (usize, usize), position: String) -> Col {
        let (scan, column) = origin;
        let table = Arc::clone(&fragment.scans[scan].table);
        let data_type = table.schema().field(column).data_type().clone();
        let stored = match Stored::of(&table, column) {
            Ok(stored) if !matches!(stored, Stored::Text) && !table.segments().is_empty() => stored,
            _ => return self.late(fragment, origin, position),
        };
        let input = fragment.column(scan, column);
        let (column_at, tiles_at) = (self.input(input), self.input(Input::Tiles(scan)));
        let segment = format!("late_segment(p, {column_at}, {tiles_at}, {position})");
        let row = format!("late_row(p, {tiles_at}, {position})");
        Col {
            given: stored.given(&data_type, &segment, &row, is_nullable(&table, column)),
            origin: Some(origin),
            position: Some(position),
            unique: is_unique(&table, column),
            aggregated: None,
            equals: Some(origin),
            on_host: None,
        }
    }

    /// From here on the row has these columns.
    pub fn enter(&mut self, schema: SchemaRef, columns: Vec<Col>) {
        self.translator.schema = schema;
        self.translator.inputs = Inputs::Row(columns.iter().map(|column| column.given.clone()).collect());
        self.columns = columns;
    }

    /// The columns at hand, with the names that they got since.
    pub fn current(&self) -> Vec<Col> {
        let Inputs::Row(given) = &self.translator.inputs else {
            return vec![];
        };
        let columns = self.columns.iter().zip(given);
        let renewed = columns.map(|(column, given)| Col {
            given: given.clone(),
            ..column.clone()
        });
        renewed.collect()
    }

    /// Expressions as columns.
    pub fn projected<'e>(&mut self, exprs: impl IntoIterator<Item = &'e PhysicalExprRef>) -> Translated<Vec<Col>> {
        let mut columns = vec![];
        for expr in exprs {
            columns.push(match expr.downcast_ref::<Column>() {
                Some(column) => Err(column.index()),
                None => Ok(match self.translator.coded(expr)? {
                    Some(given) => Col::computed(given),
                    None => self.computed(expr)?,
                }),
            });
        }
        let own = self.current();
        let taken = columns.into_iter().map(|column| match column {
            Err(index) => own.get(index).cloned().ok_or("a column that is not there".into()),
            Ok(column) => Ok(column),
        });
        taken.collect()
    }

    /// An expression's value, which the host may make, too, where it is a text: no kernel has memory for texts.
    fn computed(&mut self, expr: &PhysicalExprRef) -> Translated<Col> {
        let on_host = OnHost::of(self, expr).map(Arc::new);
        let given = match (self.translator.tried(expr), &on_host) {
            (Ok(value), _) => Given::of(value),
            (Err(why), Some(_)) => Given::refused(DataType::Utf8View, why),
            (Err(why), None) => return Err(why),
        };
        Ok(Col {
            on_host,
            ..Col::computed(given)
        })
    }

    pub fn line(&mut self, line: &str) {
        self.translator.lines += line;
        self.translator.lines += "\n    ";
    }

    /// What follows happens where `condition` holds.
    pub fn only_if(&mut self, condition: &str) {
        self.open(&format!("if ({condition}) {{"), "");
    }

    /// What follows stands between `line` and `last`.
    pub fn open(&mut self, line: &str, last: &str) {
        self.line(line);
        self.open.push(format!("{last} }}"));
    }

    /// Whether all rows of a table have come here.
    pub fn is_whole(&self) -> bool {
        self.open.is_empty() && matches!(self.source, Source::Scan(_))
    }

    /// Whether the row at hand is the scan's own at all times, and where it is in the table says which row that is.
    pub fn is_in_place(&self, fragment: &Fragment) -> bool {
        let Source::Scan(scan) = self.source else { return false };
        let segments = fragment.scans[scan].table.segments();
        let (_, others) = segments.split_last().unzip();
        let is_even = |segment: &Arc<Segment>| (segment.rows() as u32).is_multiple_of(PIPELINE_TILE);
        self.is_whole() && others.is_some_and(|others: &[Arc<Segment>]| others.iter().all(is_even))
    }

    /// Rows that have come here may be listed, before they go on.
    pub fn list_here(&mut self) {
        if !self.open.is_empty() {
            let ends: String = self.open.iter().rev().map(String::as_str).collect();
            let lines = &self.translator.lines;
            self.first = Some(format!("{lines}put_in_list(list, &listed, place);{ends}\n"));
        }
    }

    pub fn filter(&mut self, predicate: &PhysicalExprRef) -> Translated<()> {
        let value = self.translator.boolean(predicate)?;
        self.only_if(&value.is_true());
        Ok(())
    }

    /// The pipeline is complete.
    pub fn finish(self, fragment: &mut Fragment) -> Translated<()> {
        self.end_in(fragment, None)
    }

    /// Does so where it does nothing but to fill the array of words that an order is of.
    pub fn end_in(mut self, fragment: &mut Fragment, words: Option<usize>) -> Translated<()> {
        for last in std::mem::take(&mut self.open).iter().rev() {
            self.line(last);
        }
        let translator = self.translator;
        let buffers: Vec<Buffer> = translator.buffers;
        if !tenon_gpu::pipeline::fits(buffers.len(), translator.literals.len(), self.inputs.len()) {
            return Err("a pipeline of too many columns and literals".into());
        }
        if self.keeps_texts {
            fragment.keep_texts(&self.inputs, translator.lines.contains(SHORT_TEXT))?;
        }
        let over = match self.source {
            Source::Scan(scan) => &fragment.scans[scan].name,
            Source::Made { .. } => "rows",
            Source::Numbers(_) => "numbers",
        };
        let name = format!("{}. {over}", fragment.steps.len() + 1);
        fragment.once |= translator.once;
        if let Some(counters) = &mut fragment.counters {
            let counted = self.counted.into_iter().map(|(node, counter)| CountedNode {
                node,
                counter,
                pipeline: name.clone(),
            });
            counters.nodes.extend(counted);
        }
        let pipeline = Pipeline {
            name,
            code: PipelineCode {
                begin: self.begin,
                tile: self.tile,
                first: self.first.filter(|_| self.far),
                row: translator.lines,
                end: self.end,
                shared_bytes: self.shared_bytes,
            },
            buffers,
            literals: translator.literals,
            inputs: self.inputs,
            source: self.source,
            words_of_order: words,
        };
        fragment.push(Step::Pipeline(Box::new(pipeline)), self.stage);
        Ok(())
    }
}

pub fn is_nullable(table: &TableVersion, column: usize) -> bool {
    table.statistics().columns[column].null_count > 0
}

/// Whether no two rows of a table have the same value in a column.
pub fn is_unique(table: &TableVersion, column: usize) -> bool {
    table.statistics().columns[column].strictly_ascending
}

/// How many codes there are.
pub fn codes(given: &Given) -> Option<usize> {
    given.texts.as_ref().map(|texts| texts.len())
}
