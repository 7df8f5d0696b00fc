import "../elements/generate-page.js";
import "../elements/new-artifacts.js";
