import "../elements/approval-desk.js";
import "../elements/approval-list.js";
