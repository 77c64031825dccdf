// Starts the language server of program text; colours and the debugger need no code.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = vscode.workspace.getConfiguration("tilus-lab").get("path");
  client = new LanguageClient("tilus-lab", "Tilus Lab", { command, args: ["lsp"] }, { documentSelector: [{ language: "tile" }] });
  return client.start();
};

exports.deactivate = () => client?.stop();
