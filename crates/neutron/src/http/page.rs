//! Lists that come in pages: `{"ports": […], "ports_links": [{"rel": "next", "href": …}]}`.

use model::{Error, Result};
use serde_json::Value;

/// More pages than that are refused.
const MOST: usize = 1000;

/// Longer lists are refused.
const LONGEST: usize = 1 << 20;

/// A list that is being put together.
#[derive(Debug, Default)]
pub(super) struct Pages {
    whole: Value,
    last: String,
    count: usize,
}

impl Pages {
    /// Adds a page; gives the query of the next one, with its question mark, where there is one.
    pub(super) fn add(&mut self, mut page: Value) -> Result<Option<String>> {
        let next = next(&page);
        let Some((key, query)) = next else {
            self.merge(None, page)?;
            return Ok(None);
        };
        self.count += 1;
        if self.count > MOST || query == self.last {
            return Err(Error::try_again(format!("Neutron's list of {key} has no end")));
        }
        if let Some(fields) = page.as_object_mut() {
            fields.remove(&format!("{key}_links"));
        }
        self.merge(Some(&key), page)?;
        query.clone_into(&mut self.last);
        Ok(Some(query))
    }

    /// The whole list, as one page.
    pub(super) fn whole(self) -> Value {
        self.whole
    }

    fn merge(&mut self, key: Option<&str>, mut page: Value) -> Result<()> {
        if self.whole.is_null() {
            self.whole = page;
            return Ok(());
        }
        let lists = self.whole.as_object_mut().into_iter().flatten();
        for (name, list) in lists.filter(|(name, _)| key.is_none_or(|key| key == name.as_str())) {
            let more = page.get_mut(name).map(Value::take);
            if let (Value::Array(list), Some(Value::Array(more))) = (list, more) {
                if list.len() + more.len() > LONGEST {
                    return Err(Error::try_again(format!("Neutron's list of {name} has no end")));
                }
                list.extend(more);
            }
        }
        Ok(())
    }
}

/// Of what there is more, and the query that asks for it. Only the query of the link is used: the
/// token is not carried to wherever an answer says.
fn next(page: &Value) -> Option<(String, String)> {
    page.as_object()?.iter().find_map(|(name, links)| {
        let key = name.strip_suffix("_links")?;
        let next = links.as_array()?.iter().find(|link| link["rel"] == "next")?;
        let (_, query) = next["href"].as_str()?.split_once('?')?;
        let is_plain = query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        is_plain.then(|| (key.to_owned(), format!("?{query}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(items: &[u32], marker: Option<u32>) -> Value {
        let mut page = json!({ "ports": items });
        if let Some(marker) = marker {
            page["ports_links"] = json!([
                {"rel": "previous", "href": "http://elsewhere/v2.0/ports?page_reverse=True"},
                {"rel": "next", "href": format!("http://elsewhere/v2.0/ports?marker={marker}")},
            ]);
        }
        page
    }

    #[test]
    fn puts_pages_together() {
        let mut pages = Pages::default();
        assert_eq!(pages.add(page(&[1, 2], Some(2))).unwrap().unwrap(), "?marker=2");
        assert_eq!(pages.add(page(&[3], Some(3))).unwrap().unwrap(), "?marker=3");
        assert_eq!(pages.add(page(&[4], None)).unwrap(), None);
        assert_eq!(pages.whole(), json!({"ports": [1, 2, 3, 4]}));
    }

    #[test]
    fn ends() {
        let mut pages = Pages::default();
        pages.add(page(&[1], Some(1))).unwrap();
        assert_eq!(pages.add(page(&[1], Some(1))).unwrap_err().kind(), model::Kind::TryAgain);
        for odd in [json!(null), json!([1]), json!({"ports": 1}), json!({"ports_links": [{}]})] {
            let mut pages = Pages::default();
            assert_eq!(pages.add(odd.clone()).unwrap(), None);
            assert_eq!(pages.whole(), odd);
        }
    }
}
