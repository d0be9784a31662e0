//! Windows of a SELECT: named ones are written out where they are used, and frames that DataFusion lacks become an argument
//! of the call (`functions::window`). Checks are PostgreSQL's.

use super::fold;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::window::frame::{Bound, Exclude, Frame, Units};
use crate::pg::functions::window::{FRAME, is_datafusions};
use crate::pg::rewrite::call;
use crate::pg::tokens::frames;
use crate::pg::walk::VisitMut;
use crate::pg::walk::null;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    NamedWindowExpr, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, Value, VisitorMut, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use std::ops::ControlFlow;

/// Resolves the windows of a query's own SELECTs.
pub(super) fn resolve(query: &mut Query) -> Result<()> {
    let order = query.order_by.as_mut().map(|order| &mut order.kind);
    let mut keys = match order {
        Some(OrderByKind::Expressions(keys)) => keys.iter_mut().map(|key| &mut key.expr).collect(),
        _ => Vec::new(),
    };
    body(&mut query.body, &mut keys)
}

fn body(body: &mut SetExpr, keys: &mut [&mut Expr]) -> Result<()> {
    match body {
        SetExpr::Select(select) => in_select(select, keys),
        SetExpr::SetOperation { left, right, .. } => {
            self::body(left, &mut [])?;
            self::body(right, &mut [])
        }
        // A nested query comes by itself.
        _ => Ok(()),
    }
}

fn in_select(select: &mut Select, keys: &mut [&mut Expr]) -> Result<()> {
    let mut resolver = Resolver {
        named: Vec::new(),
        depth: 0,
    };
    for definition in std::mem::take(&mut select.named_window) {
        let name = fold(&definition.0);
        if resolver.named.iter().any(|(known, _)| *known == name) {
            return Err(windowing(format!("window \"{name}\" is already defined")));
        }
        let spec = match definition.1 {
            NamedWindowExpr::WindowSpec(spec) => resolver.inherited(spec)?,
            NamedWindowExpr::NamedWindow(other) => resolver.find(&other)?.clone(),
        };
        resolver.named.push((name, spec));
    }
    let mut visit = |expr: &mut Expr| match expr.visit(&mut resolver) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            visit(expr)?;
        }
    }
    if let Some(Distinct::On(on)) = &mut select.distinct {
        on.iter_mut().try_for_each(&mut visit)?;
    }
    keys.iter_mut().try_for_each(|key| visit(key))
}

fn windowing(message: String) -> SqlError {
    SqlError::new(SqlState("42P20"), message)
}

struct Resolver {
    named: Vec<(String, WindowSpec)>,
    /// Subqueries around the place.
    depth: usize,
}

impl VisitorMut for Resolver {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if self.depth == 0
            && let Expr::Function(function) = expr
            && let Err(error) = self.function(function)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }
}

impl Resolver {
    fn find(&self, name: &Ident) -> Result<&WindowSpec> {
        let name = fold(name);
        let found = self.named.iter().find(|(known, _)| *known == name);
        found.map(|(_, spec)| spec).ok_or_else(|| {
            let message = format!("window \"{name}\" does not exist");
            SqlError::new(state::UNDEFINED_OBJECT, message)
        })
    }

    /// A window with what it takes from the one that it names.
    fn inherited(&self, mut spec: WindowSpec) -> Result<WindowSpec> {
        let (name, exclude) = frames::parted(spec.window_name.take());
        if let Some(name) = name {
            let base = self.find(&name)?;
            let name = fold(&name);
            if !spec.partition_by.is_empty() {
                return Err(windowing(format!(
                    "cannot override PARTITION BY clause of window \"{name}\""
                )));
            }
            if !spec.order_by.is_empty() && !base.order_by.is_empty() {
                return Err(windowing(format!(
                    "cannot override ORDER BY clause of window \"{name}\""
                )));
            }
            if base.window_frame.is_some() {
                let told = windowing(format!("cannot copy window \"{name}\" because it has a frame clause"));
                let bare = spec.order_by.is_empty() && spec.window_frame.is_none();
                return Err(match bare {
                    true => told.hint("Omit the parentheses in this OVER clause."),
                    false => told,
                });
            }
            spec.partition_by.clone_from(&base.partition_by);
            if spec.order_by.is_empty() {
                spec.order_by.clone_from(&base.order_by);
            }
        }
        spec.window_name = exclude;
        Ok(spec)
    }

    fn function(&self, function: &mut Function) -> Result<()> {
        let mut spec = match function.over.take() {
            None => return only_over_windows(function),
            Some(WindowType::NamedWindow(name)) => self.find(&name)?.clone(),
            Some(WindowType::WindowSpec(spec)) => self.inherited(spec)?,
        };
        let (_, exclude) = frames::parted(spec.window_name.take());
        if let Some(frame) = &mut spec.window_frame {
            let (own, offsets) = framed(frame, exclude.as_ref())?;
            check(&own, spec.order_by.len())?;
            let plain = |offset: &Option<Expr>| offset.as_ref().is_none_or(is_number);
            if is_datafusions(&own) && offsets.iter().all(plain) && !is_empty(&own, &offsets) {
                let [from, to] = offsets;
                frame.start_bound = bound(own.start, from);
                frame.end_bound = Some(bound(own.end, to));
            } else if let FunctionArguments::List(list) = &mut function.args {
                let null = || Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(null()),
                    data_type: DataType::Int8(None),
                    array: false,
                    format: None,
                };
                let code = Expr::Value(Value::SingleQuotedString(own.code()).into());
                let [from, to] = offsets.map(|offset| offset.unwrap_or_else(null));
                let marker = call(FRAME, vec![code, from, to]);
                list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(marker)));
                spec.window_frame = None;
            }
        }
        function.over = Some(WindowType::WindowSpec(spec));
        Ok(())
    }
}

/// Refuses `first_value(x)` and `last_value(x)`, which DataFusion has as aggregates too. Rewrites of the tree, whose names are
/// quoted, may use these.
fn only_over_windows(function: &Function) -> Result<()> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
        return Ok(());
    };
    let folded = fold(name);
    if name.quote_style.is_none() && matches!(folded.as_str(), "first_value" | "last_value") {
        let message = format!("window function {folded} requires an OVER clause");
        return Err(SqlError::new(SqlState("42809"), message));
    }
    Ok(())
}

/// A frame clause and its offsets.
fn framed(frame: &WindowFrame, exclude: Option<&Ident>) -> Result<(Frame, [Option<Expr>; 2])> {
    let (start, from) = parts(&frame.start_bound);
    let (end, to) = match &frame.end_bound {
        Some(end) => parts(end),
        None => (Bound::CurrentRow, None),
    };
    let own = Frame {
        units: match frame.units {
            WindowFrameUnits::Rows => Units::Rows,
            WindowFrameUnits::Range => Units::Range,
            WindowFrameUnits::Groups => Units::Groups,
        },
        start,
        end,
        exclude: exclude.map_or(Exclude::Nothing, frames::kind),
    };
    Ok((own, [from, to]))
}

fn parts(bound: &WindowFrameBound) -> (Bound, Option<Expr>) {
    match bound {
        WindowFrameBound::CurrentRow => (Bound::CurrentRow, None),
        WindowFrameBound::Preceding(None) => (Bound::UnboundedPreceding, None),
        WindowFrameBound::Following(None) => (Bound::UnboundedFollowing, None),
        WindowFrameBound::Preceding(Some(offset)) => (Bound::Preceding, Some(offset.as_ref().clone())),
        WindowFrameBound::Following(Some(offset)) => (Bound::Following, Some(offset.as_ref().clone())),
    }
}

fn bound(bound: Bound, offset: Option<Expr>) -> WindowFrameBound {
    let bare = offset.map(|offset| match offset {
        Expr::Cast { expr, .. } => expr,
        other => Box::new(other),
    });
    match bound {
        Bound::CurrentRow => WindowFrameBound::CurrentRow,
        Bound::UnboundedPreceding | Bound::Preceding => WindowFrameBound::Preceding(bare),
        Bound::UnboundedFollowing | Bound::Following => WindowFrameBound::Following(bare),
    }
}

/// A number of rows as it stands, or as a literal's cast.
fn is_number(offset: &Expr) -> bool {
    match offset {
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i64>().is_ok()),
        Expr::Cast {
            expr,
            data_type: DataType::Int4(None),
            ..
        } => is_number(expr),
        _ => false,
    }
}

fn rows(offset: &Option<Expr>) -> Option<i64> {
    match offset.as_ref()? {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::Cast { expr, .. } => rows(&Some(expr.as_ref().clone())),
        _ => None,
    }
}

/// Whether the frame ends before it begins, which DataFusion refuses.
fn is_empty(frame: &Frame, [from, to]: &[Option<Expr>; 2]) -> bool {
    match (frame.start, frame.end) {
        (Bound::Preceding, Bound::Preceding) => rows(from) < rows(to),
        (Bound::Following, Bound::Following) => rows(from) > rows(to),
        _ => false,
    }
}

fn check(frame: &Frame, keys: usize) -> Result<()> {
    let wrong = |message: &str| Err(windowing(message.to_string()));
    match (frame.start, frame.end) {
        (Bound::UnboundedFollowing, _) => return wrong("frame start cannot be UNBOUNDED FOLLOWING"),
        (_, Bound::UnboundedPreceding) => return wrong("frame end cannot be UNBOUNDED PRECEDING"),
        (Bound::CurrentRow, Bound::Preceding) => {
            return wrong("frame starting from current row cannot have preceding rows");
        }
        (Bound::Following, Bound::Preceding | Bound::CurrentRow) => {
            return wrong("frame starting from following row cannot have preceding rows");
        }
        _ => {}
    }
    let offsets = frame.start.has_offset() || frame.end.has_offset();
    match frame.units {
        Units::Range if offsets && keys != 1 => {
            wrong("RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column")
        }
        Units::Groups if keys == 0 => wrong("GROUPS mode requires an ORDER BY clause"),
        _ => Ok(()),
    }
}
