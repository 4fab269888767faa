import { Component, signal } from "@angular/core";
import { getSecure } from "@rep/gateway/client";
import { variable } from "./variable";

@Component({
  selector: "app-root",
  template: `
    <h1>{{ title() }}</h1>
    <button (click)="decrypt()">Decrypt</button>
    <output>{{ mapKey() }}</output>
  `,
})
export class App {
  protected readonly title = variable("TITLE");
  protected readonly mapKey = signal("");

  protected async decrypt() {
    this.mapKey.set(await getSecure("MAP_KEY"));
  }
}
