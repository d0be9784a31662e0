//! Steps of a fragment between its pipelines: rows are put in order, and what is before each is added up. The host waits for both,
//! but where an order is kept.

use super::fragment::{Fragment, Step};
use super::orders::OrderOf;

/// Puts rows in order: `order` becomes the array of their places, by the words that `words` names.
pub struct Order {
    pub name: String,
    /// The array of the row count, and the most rows there are.
    pub count: usize,
    pub rows_max: u64,
    /// Arrays of words and their low bits that count, those that count most first.
    pub words: Vec<(usize, u32)>,
    pub order: usize,
    /// Whose order it is, where that is kept, and the array that becomes that of its one word in the order.
    pub kept: Option<(OrderOf, usize)>,
}

/// What the rows before each one add up to, modulo their width; one more for all rows.
pub struct Sums {
    pub name: String,
    pub count: usize,
    pub rows_max: u64,
    pub from: usize,
    pub to: usize,
    /// Of 8 bytes, or of 4.
    pub wide: bool,
}

impl Fragment {
    /// A step that puts the rows of a table, with room for so many, in the order of such words; gives the array of their
    /// places.
    pub fn order(&mut self, (count, rows_max): (usize, u64), words: Vec<(usize, u32)>) -> usize {
        self.ordered_words = self
            .ordered_words
            .saturating_add(rows_max.saturating_mul(words.len() as u64));
        self.push_order((count, rows_max), words, None)
    }

    /// The same of all rows of a table by such a word of a column, of which the order is kept; gives the array of the words in
    /// the order, too.
    pub fn kept_order(&mut self, made: (usize, u64), word: (usize, u32), of: OrderOf) -> (usize, usize) {
        let words = self.array(1, 8, None);
        (self.push_order(made, vec![word], Some((of, words))), words)
    }

    fn push_order(
        &mut self,
        (count, rows_max): (usize, u64),
        words: Vec<(usize, u32)>,
        kept: Option<(OrderOf, usize)>,
    ) -> usize {
        // The array comes about when it is known how many rows there are.
        let order = self.array(1, 4, None);
        let name = format!("{}. order", self.steps.len() + 1);
        // Places before and after a word's turn, the words in that order, and what sorting them takes.
        let row_bytes = 2 * size_of::<u32>() as u64 + 4 * size_of::<u64>() as u64;
        self.working_bytes = self.working_bytes.max(rows_max.saturating_mul(row_bytes));
        let order_step = Order {
            name,
            count,
            rows_max,
            words,
            order,
            kept,
        };
        self.push(Step::Order(order_step), self.gathered());
        order
    }

    /// A step that adds up what is before each row; gives the array of the sums, one more than rows.
    pub fn sums(&mut self, (count, rows_max): (usize, u64), from: usize, wide: bool) -> usize {
        let to = self.array(rows_max.saturating_add(1), if wide { 8 } else { 4 }, None);
        let name = format!("{}. sums", self.steps.len() + 1);
        let sums = Sums {
            name,
            count,
            rows_max,
            from,
            to,
            wide,
        };
        self.push(Step::Sums(sums), self.gathered());
        to
    }

    /// Whether the host waits before the last step, where such orders are there.
    pub fn waits(&self, is_there: impl Fn(&OrderOf) -> bool) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Pipeline(_) => false,
            Step::Order(own) => !own.kept.as_ref().is_some_and(|(of, _)| is_there(of)),
            Step::Sums(_) => true,
        })
    }

    /// The orders of tables' rows that it searches.
    pub fn kept_orders(&self) -> impl Iterator<Item = &OrderOf> {
        self.steps.iter().filter_map(|step| match step {
            Step::Order(own) => own.kept.as_ref().map(|(of, _)| of),
            _ => None,
        })
    }
}
