//! Tables: columns of words on a terminal as in a file, wrapped only where a terminal is too narrow.

use comfy_table::{CellAlignment, ContentArrangement};

use super::Screen;

/// Rows under a heading.
pub struct Table {
    inner: comfy_table::Table,
}

impl Table {
    /// A table with these columns. Those whose heading begins with `>` are aligned to the right.
    pub fn new(headings: &[&str]) -> Table {
        let mut inner = comfy_table::Table::new();
        inner.load_style(comfy_table::presets::NOTHING);
        inner.set_header(headings.iter().map(|heading| heading.trim_start_matches('>')));
        for (heading, column) in headings.iter().zip(inner.column_iter_mut()) {
            column.set_padding((0, 2));
            if heading.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Table { inner }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        self.inner.add_row(cells);
    }

    /// As text, each line ended.
    pub fn render(&mut self, screen: &Screen) -> String {
        if let Some(width) = screen.width {
            self.inner.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        // No trailing blanks: output is compared and grepped.
        self.inner.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// Columns of the terminal on stdout.
pub fn terminal_width() -> Option<u16> {
    terminal_size::terminal_size().map(|(width, _)| width.0)
}
