//! The rows of a build side in the order of a key that a condition bounds by expressions of the probe side: two binary searches
//! find the rows that a probe may meet (He 2008, section 4.2's indexed nested-loop join, over a sorted array). Of these the
//! join's whole condition decides.
//!
//! Where rows are intervals, the one key is bounded at one end, and another key at the other. Then no row is further from that
//! end than the longest interval, which the build side's pipeline finds out.

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExprRef;

use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input};
use super::super::made::Made;
use super::super::orders::OrderOf;
use super::Sides;
use super::table::{Head, equals};
use crate::codegen::{Range, Translated, c_number};
use crate::join::ranges::{End, RangeCondition};

/// Pairs that rows of average many partners may come to, and others beside: nobody can stop a pipeline that is under way.
const PAIRS_MAX: u64 = 1 << 33;

/// Keys of more bits are not sorted: what is behind the last must be a word, too.
const BITS_MAX: u32 = 63;

pub struct SortedKeys {
    condition: RangeCondition,
    interval: Option<Interval>,
    data_type: DataType,
    /// What keys may be: words count from the lowest.
    range: Range,
    /// The array of the rows' numbers, and that of the keys' words, in order.
    order: usize,
    words: usize,
    /// Whether they are an index's, and kept.
    pub by_index: bool,
    /// The array of how many pairs are tried by probes that have many.
    pairs: usize,
}

/// What bounds keys at the end that their own condition leaves open.
struct Interval {
    condition: RangeCondition,
    /// The array of the longest interval, and the longest that there may be.
    longest: usize,
    length_max: i128,
}

impl SortedKeys {
    /// The conditions that bound a key of the build side, the first of those with the most ends first.
    fn conditions(sides: &Sides<'_>) -> Translated<Vec<RangeCondition>> {
        let filter = sides.join.spec().filter.as_ref().map(RangeCondition::all);
        let all = filter.transpose().map_err(|error| error.to_string())?;
        let mut own: Vec<RangeCondition> = all.into_iter().flatten().collect();
        own.retain(|condition| condition.sorted == sides.build_side);
        own.sort_by_key(|condition| std::cmp::Reverse(condition.ends()));
        Ok(own)
    }

    /// The order by the key that is bounded, of the flow's rows, which are all of a table; None: no index has it.
    pub fn by_index(fragment: &Fragment, flow: &mut Flow, sides: &Sides<'_>) -> Translated<Option<OrderOf>> {
        let Some(condition) = Self::conditions(sides)?.into_iter().next() else {
            return Ok(None);
        };
        let column = equals(flow, std::slice::from_ref(&condition.key))[0];
        let key = key(flow, &condition.key);
        Ok(column
            .zip(key)
            .and_then(|(column, key)| OrderOf::fit(fragment, column, key.range)))
    }

    /// Ends the build side's rows, which are put into `made`. None: no condition bounds a key that has words. `kept`: what
    /// `by_index` gave.
    pub fn put(
        fragment: &mut Fragment,
        mut flow: Flow,
        sides: &Sides<'_>,
        made: &Made,
        kept: Option<OrderOf>,
    ) -> Translated<Option<Self>> {
        let mut own = Self::conditions(sides)?.into_iter();
        // A pass has rows of its own, and an order is of all.
        let key = match own.next().filter(|_| fragment.passes().is_none()) {
            Some(condition) => key(&mut flow, &condition.key).map(|key| (condition, key)),
            None => None,
        };
        let Some((condition, key)) = key else {
            flow.finish(fragment)?;
            return Ok(None);
        };
        let is_open = |other: &RangeCondition| condition.lows.is_empty() != other.lows.is_empty();
        let mut interval = None;
        if let Some(other) = own.find(|other| condition.ends() == 1 && other.ends() == 1 && is_open(other)) {
            interval = Interval::put(fragment, &mut flow, &key, other);
        }
        let unordered = fragment.array(made.room, 8, None);
        let to = flow.array(Input::Array(unordered), "u64");
        flow.line(&format!("{to}[at] = {};", key.ordered()));
        let alone = kept.is_some() && interval.is_none() && made.is_in_place();
        flow.end_in(fragment, alone.then_some(unordered))?;
        let (table, word, by_index) = ((made.count, made.room), (unordered, key.bits), kept.is_some());
        let (order, words) = match kept {
            Some(kept) => fragment.kept_order(table, word, kept),
            None => {
                let order = fragment.order(table, vec![word]);
                let words = fragment.array(made.room, 8, None);
                let mut flow = Flow::over(made, sides.build.schema());
                let from = flow.array(Input::Array(unordered), "const u64");
                let order_at = flow.array(Input::Array(order), "const u32");
                let to = flow.array(Input::Array(words), "u64");
                flow.line(&format!("{to}[row] = {from}[{order_at}[row]];"));
                flow.finish(fragment)?;
                (order, words)
            }
        };
        Ok(Some(Self {
            condition,
            interval,
            data_type: key.data_type,
            range: key.range,
            order,
            words,
            by_index,
            pairs: fragment.array(1, 8, Some(0)),
        }))
    }

    /// The rows that the probe at hand may meet.
    pub fn head(&self, flow: &mut Flow, made: &Made) -> Translated<Head> {
        let mut name = |c_type: &str, value: String| {
            let value = flow.translator.define(c_type, value, None, DataType::UInt64, None);
            value.value
        };
        let low = name("i64", c_number(self.range.0));
        let high = name("i64", c_number(self.range.1));
        let none = name("bool", "false".into());
        for (ends, bound, comparison, step) in [
            (&self.condition.lows, &low, ">", 1),
            (&self.condition.highs, &high, "<", -1),
        ] {
            for end in ends {
                self.narrow(flow, end, (bound, comparison, step), &none, None)?;
            }
        }
        if let Some(interval) = &self.interval {
            for end in &interval.condition.lows {
                self.narrow(flow, end, (&low, ">", 1), &none, Some(interval))?;
            }
            for end in &interval.condition.highs {
                self.narrow(flow, end, (&high, "<", -1), &none, Some(interval))?;
            }
        }
        flow.far = true;
        let count = flow.array(Input::Array(made.count), "const u32");
        let words = flow.array(Input::Array(self.words), "const u64");
        let order = flow.array(Input::Array(self.order), "const u32");
        let pairs = flow.array(Input::Array(self.pairs), "u64");
        let room = flow.number(made.room);
        let many = flow.number((PAIRS_MAX / flow.rows_max.max(1)).max(1));
        let all = flow.number(PAIRS_MAX);
        let first = c_number(self.range.0);
        let mut place = || {
            flow.translator
                .define("u32", "0".into(), None, DataType::UInt32, None)
                .value
        };
        let (name, end) = (place(), place());
        flow.line(&format!(
            "if (!{none} && {low} <= {high}) {{ \
             {end} = (u32)min_of<u64>({count}[0], {room}); \
             {name} = first_from({words}, 0, {end}, (u64)({low} - ({first}))); \
             {end} = first_from({words}, {name}, {end}, (u64)({high} - ({first})) + 1); \
             {name} = {name} < {end} && allowed_pairs(p, {pairs}, {end} - {name}, {many}, {all}) ? {name} + 1 : 0u; }}"
        ));
        Ok(Head {
            row: format!("{order}[{name} - 1]"),
            next: format!("({name} < {end} ? {name} + 1 : 0u)"),
            name,
        })
    }

    /// Moves a bound to an end, or as far beyond it as intervals are long, where that is of the keys' type and has a word; what
    /// bounds nothing is left to the whole condition.
    fn narrow(
        &self,
        flow: &mut Flow,
        end: &End,
        (bound, comparison, step): (&str, &str, i64),
        none: &str,
        interval: Option<&Interval>,
    ) -> Translated<()> {
        let value = flow.translator.translate(&end.expr)?;
        let Ok((word, range)) = flow.word(&value) else {
            return Ok(());
        };
        if value.data_type != self.data_type {
            return Ok(());
        }
        let length_max = interval.map_or(0, |interval| interval.length_max);
        let fits = |value: i128| i64::try_from(value).is_ok();
        // Where the next value is none of the type's words, the end itself stays within.
        let has_next = fits(range.0 - 1 - length_max) && fits(range.1 + 1 + length_max);
        if interval.is_some() && !has_next {
            return Ok(());
        }
        let mut moved = match end.strict && has_next {
            true => format!("{word} + ({step})"),
            false => word,
        };
        if let Some(interval) = interval {
            let longest = flow.array(Input::Array(interval.longest), "const i64");
            let sign = if step > 0 { "-" } else { "+" };
            moved = format!("{moved} {sign} {longest}[0]");
        }
        let own = flow.translator.define("i64", moved, None, DataType::Int64, None).value;
        flow.line(&format!("if ({own} {comparison} {bound}) {bound} = {own};"));
        if let Some(null) = &value.null {
            flow.line(&format!("{none} |= {null};"));
        }
        Ok(())
    }
}

impl Interval {
    /// Has the build side's rows tell how far the other condition's key is from theirs. None: it has no words.
    fn put(fragment: &mut Fragment, flow: &mut Flow, own: &Key, condition: RangeCondition) -> Option<Self> {
        let other = key(flow, &condition.key).filter(|other| other.data_type == own.data_type)?;
        let (above, below) = match condition.lows.is_empty() {
            // The other key is bounded from below, the own from above.
            false => (&other, own),
            true => (own, &other),
        };
        let length_max = (above.range.1 - below.range.0).max(0);
        i64::try_from(length_max).ok()?;
        i64::try_from(above.range.0 - below.range.1).ok()?;
        let longest = fragment.array(1, 8, Some(0));
        let to = flow.array(Input::Array(longest), "u64");
        let nulls = own.null.iter().chain(&other.null).map(|null| format!("!{null}"));
        let present = nulls.chain(["true".into()]).collect::<Vec<_>>().join(" && ");
        let (above, below) = (&above.word, &below.word);
        flow.line(&format!("if ({present}) longest_of({to}, {above} - {below});"));
        Some(Self {
            condition,
            longest,
            length_max,
        })
    }
}

/// A key as a word in the order of its values.
struct Key {
    word: String,
    null: Option<String>,
    bits: u32,
    range: Range,
    data_type: DataType,
}

impl Key {
    /// C++ of the word counted from the lowest. The join's whole condition leaves a row without a key out.
    fn ordered(&self) -> String {
        let word = format!("(u64)({} - ({}))", self.word, c_number(self.range.0));
        match &self.null {
            Some(null) => format!("({null} ? 0ull : {word})"),
            None => word,
        }
    }
}

fn key(flow: &mut Flow, expr: &PhysicalExprRef) -> Option<Key> {
    let value = flow.translator.translate(expr).ok()?;
    let (word, range) = flow.word(&value).ok()?;
    let bits = u64::BITS - u64::try_from(range.1 - range.0).ok()?.leading_zeros();
    // Texts have codes of their column's.
    if bits > BITS_MAX || matches!(value.data_type, DataType::Utf8View) {
        return None;
    }
    Some(Key {
        word,
        null: value.null.clone(),
        bits: bits.max(1),
        range,
        data_type: value.data_type,
    })
}
