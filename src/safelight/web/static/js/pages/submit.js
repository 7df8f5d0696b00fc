import "../elements/picture-picker.js";
