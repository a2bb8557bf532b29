//! Columns for people: upper-case headings, two spaces between, no boxes.

pub(crate) use template::printable as clean;

/// Rows of cells below headings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()] }
    }

    /// Rows without headings.
    pub(crate) fn headless() -> Self {
        Self::default()
    }

    /// Adds a row; an empty cell is shown as `-`.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    pub(crate) fn text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let padding = width.saturating_sub(cell.chars().count());
                line.push_str(&clean(cell));
                line.extend(std::iter::repeat_n(' ', padding + 2));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Without the columns under these headings, one after the other, until a line has so many characters at most.
    pub(crate) fn narrowed(mut self, most: usize, headings: &[&str]) -> Self {
        for heading in headings {
            if self.width() <= most {
                break;
            }
            let at = self.rows.first().and_then(|row| row.iter().position(|it| it == heading));
            let Some(at) = at else { continue };
            for row in self.rows.iter_mut().filter(|row| at < row.len()) {
                row.remove(at);
            }
        }
        self
    }

    fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_until_it_fits() {
        let table = || {
            let mut table = Table::new(&["NAME", "IP", "MAC"]);
            table.row(["web", "10.0.0.1", "02:00:00:00:00:01"].map(str::to_owned));
            table
        };
        let narrowed = |most| table().narrowed(most, &["MAC", "IP"]).text();
        assert_eq!(narrowed(33), table().text());
        assert_eq!(narrowed(32), "NAME  IP\nweb   10.0.0.1\n");
        assert_eq!(narrowed(3), "NAME\nweb\n");
    }

    #[test]
    fn aligns_and_tames() {
        let mut table = Table::new(&["NAME", "IP"]);
        table.row(["a-long-name".to_owned(), String::new()]);
        table.row(["b".to_owned(), "10.0.0.1\x1b[2J".to_owned()]);
        assert_eq!(table.text(), "NAME         IP\na-long-name  -\nb            10.0.0.1?[2J\n");
    }
}
