//! Numbers of `linux/netfilter/nfnetlink.h` and `nf_tables.h`, and of nft's own user data.

/// `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;

/// `nlmsg_type` of an nftables message.
pub(crate) const fn kind(message: u16) -> u16 {
    SUBSYSTEM << 8 | message
}

/// `struct nfgenmsg`: family, version, resource.
pub(crate) const fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// Length of `struct nfgenmsg`.
pub(crate) const HEADER: usize = 4;
/// `NFNL_MSG_BATCH_BEGIN`.
pub(crate) const BATCH_BEGIN: u16 = 16;
/// `NFNL_MSG_BATCH_END`.
pub(crate) const BATCH_END: u16 = 17;
/// The resource of a batch: the subsystem it is for.
pub(crate) const BATCH_RESOURCE: u16 = SUBSYSTEM;
/// `NFNL_BATCH_GENID`.
pub(crate) const BATCH_GENERATION: u16 = 1;

pub(crate) const NEWTABLE: u16 = 0;
pub(crate) const GETTABLE: u16 = 1;
pub(crate) const DELTABLE: u16 = 2;
pub(crate) const NEWCHAIN: u16 = 3;
pub(crate) const GETCHAIN: u16 = 4;
pub(crate) const DELCHAIN: u16 = 5;
pub(crate) const NEWRULE: u16 = 6;
pub(crate) const GETRULE: u16 = 7;
pub(crate) const DELRULE: u16 = 8;
pub(crate) const NEWSET: u16 = 9;
pub(crate) const DELSET: u16 = 11;
pub(crate) const NEWSETELEM: u16 = 12;
pub(crate) const GETSETELEM: u16 = 13;
pub(crate) const DELSETELEM: u16 = 14;
pub(crate) const NEWGEN: u16 = 15;
pub(crate) const GETGEN: u16 = 16;
pub(crate) const NEWOBJ: u16 = 18;
pub(crate) const GETOBJ: u16 = 19;
pub(crate) const DELOBJ: u16 = 20;

pub(crate) const GEN_ID: u16 = 1;
/// `NFTA_GEN_PROC_PID`: the thread that committed.
pub(crate) const GEN_THREAD: u16 = 2;

pub(crate) const TABLE_NAME: u16 = 1;
pub(crate) const TABLE_FLAGS: u16 = 2;
pub(crate) const TABLE_HANDLE: u16 = 4;
pub(crate) const TABLE_USERDATA: u16 = 6;

pub(crate) const CHAIN_TABLE: u16 = 1;
pub(crate) const CHAIN_NAME: u16 = 3;
pub(crate) const CHAIN_HOOK: u16 = 4;
pub(crate) const CHAIN_POLICY: u16 = 5;
pub(crate) const CHAIN_TYPE: u16 = 7;
pub(crate) const HOOK_NUMBER: u16 = 1;
pub(crate) const HOOK_PRIORITY: u16 = 2;

pub(crate) const RULE_TABLE: u16 = 1;
pub(crate) const RULE_CHAIN: u16 = 2;
pub(crate) const RULE_HANDLE: u16 = 3;
pub(crate) const RULE_POSITION: u16 = 6;
pub(crate) const RULE_EXPRESSIONS: u16 = 4;
pub(crate) const RULE_USERDATA: u16 = 7;

pub(crate) const SET_TABLE: u16 = 1;
pub(crate) const SET_NAME: u16 = 2;
pub(crate) const SET_FLAGS: u16 = 3;
pub(crate) const SET_KEY_TYPE: u16 = 4;
pub(crate) const SET_KEY_LEN: u16 = 5;
pub(crate) const SET_DATA_TYPE: u16 = 6;
pub(crate) const SET_DATA_LEN: u16 = 7;
pub(crate) const SET_ID: u16 = 10;
pub(crate) const SET_USERDATA: u16 = 13;
pub(crate) const SET_OBJECT_TYPE: u16 = 15;
/// `NFT_SET_INTERVAL`.
pub(crate) const SET_IS_INTERVAL: u32 = 4;
/// `NFT_SET_MAP`.
pub(crate) const SET_IS_MAP: u32 = 8;
/// `NFT_SET_OBJECT`.
pub(crate) const SET_HAS_OBJECTS: u32 = 64;

pub(crate) const OBJECT_TABLE: u16 = 1;
pub(crate) const OBJECT_NAME: u16 = 2;
pub(crate) const OBJECT_TYPE: u16 = 3;
pub(crate) const OBJECT_DATA: u16 = 4;
pub(crate) const OBJECT_USE: u16 = 5;
/// `NFT_OBJECT_COUNTER`.
pub(crate) const IS_COUNTER: u32 = 1;
/// `NFT_OBJECT_QUOTA`.
pub(crate) const IS_QUOTA: u32 = 2;

pub(crate) const ELEMENTS_TABLE: u16 = 1;
pub(crate) const ELEMENTS_SET: u16 = 2;
pub(crate) const ELEMENTS_LIST: u16 = 3;
pub(crate) const ELEMENT_KEY: u16 = 1;
pub(crate) const ELEMENT_DATA: u16 = 2;
pub(crate) const ELEMENT_FLAGS: u16 = 3;
/// `NFT_SET_ELEM_INTERVAL_END`.
pub(crate) const ELEMENT_IS_END: u32 = 1;
pub(crate) const ELEMENT_USERDATA: u16 = 6;
pub(crate) const ELEMENT_OBJECT: u16 = 9;

/// `NFTA_LIST_ELEM`.
pub(crate) const LIST_ELEMENT: u16 = 1;
pub(crate) const EXPRESSION_NAME: u16 = 1;
pub(crate) const EXPRESSION_DATA: u16 = 2;

pub(crate) const DATA_VALUE: u16 = 1;
pub(crate) const DATA_VERDICT: u16 = 2;
pub(crate) const VERDICT_CODE: u16 = 1;
pub(crate) const VERDICT_CHAIN: u16 = 2;

/// `NFTNL_UDATA_SET_KEYBYTEORDER` of nft(8): four bytes, one for the order of the host.
pub(crate) const USERDATA_HOST_ORDER: [u8; 6] = {
    let [a, b, c, d] = 1u32.to_ne_bytes();
    [0, 4, a, b, c, d]
};
/// `NFTNL_UDATA_SET_DATABYTEORDER`, the same of a map's values.
pub(crate) const USERDATA_DATA_HOST_ORDER: [u8; 6] = {
    let [a, b, c, d] = 1u32.to_ne_bytes();
    [1, 4, a, b, c, d]
};
/// `NFTNL_UDATA_TABLE_COMMENT`, `_RULE_COMMENT` and `_SET_ELEM_COMMENT` of libnftnl.
pub(crate) const USERDATA_COMMENT: u8 = 0;
/// Spoke's own: a comment that is longer than nft(8) takes one, which passes over it.
pub(crate) const USERDATA_LONG: u8 = 0x73;
/// `NFT_SET_TIMEOUT`.
pub(crate) const SET_HAS_TIMEOUTS: u32 = 0x10;
/// `NFT_SET_CONCAT`: with intervals, each field of a key is one.
pub(crate) const SET_IS_CONCATENATED: u32 = 0x80;
/// `NFTA_SET_DESC`, `NFTA_SET_DESC_SIZE`, `NFTA_SET_DESC_CONCAT` and `NFTA_SET_FIELD_LEN`.
pub(crate) const SET_DESCRIPTION: u16 = 9;
pub(crate) const DESCRIPTION_SIZE: u16 = 1;
pub(crate) const DESCRIPTION_FIELDS: u16 = 2;
pub(crate) const FIELD_LENGTH: u16 = 1;
/// `NFTA_SET_ELEM_TIMEOUT`, `_EXPIRATION` (milliseconds) and `_KEY_END`.
pub(crate) const ELEMENT_TIMEOUT: u16 = 4;
pub(crate) const ELEMENT_EXPIRATION: u16 = 5;
pub(crate) const ELEMENT_KEY_END: u16 = 10;
/// `NFT_SET_EVAL`.
pub(crate) const SET_IS_CHANGED_BY_RULES: u32 = 0x20;
