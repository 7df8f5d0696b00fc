import "../elements/generate-page.js";
import "../elements/new-artifacts.js";
import "../elements/lazy-clip.js";
