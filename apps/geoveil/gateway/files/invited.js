// A survey that asks for tokens: an issuer gives one for an invitation code, which this browser keeps
// until the report is counted.

import { say } from "./geoveil-client.js";
import { whoLearns } from "./geoveil-survey.js";

const at = (id) => document.getElementById(id);

/**
 * What to send to the issuer, once somebody has given a code; undefined for other surveys.
 *
 * `wrong` returns what is wrong with the code, or stores it; `settle` forgets it, or asks for another.
 */
export async function invited(campaign) {
  if (!campaign.tokenKey) return undefined;
  const answer = await fetch("/pages/issuer").catch(() => undefined);
  const url = answer?.status === 200 ? await answer.text() : localStorage.getItem("geoveil issuer");
  if (!url) return undefined; // the client then says what is missing
  localStorage.setItem("geoveil issuer", url);
  const name = `geoveil invitation ${campaign.id}`;
  const issuer = { url, credential: localStorage.getItem(name) ?? "none" };
  at("invitation").value = localStorage.getItem(name) ?? "";
  at("inviting").textContent = [
    say("invited.code"),
    say("invited.goes", { host: new URL(url).host }),
    ...whoLearns(campaign),
  ].join(" ");
  at("invited").hidden = false;
  return {
    issuer,
    wrong() {
      const code = at("invitation").value.trim();
      if (!/^[!-~]{1,200}$/.test(code)) return say("invited.wrong");
      localStorage.setItem(name, (issuer.credential = code));
      return "";
    },
    settle(history) {
      const own = history.findLast((one) => one.campaignId === campaign.id);
      const unknown = own?.status === "pending" && own.failure === "permission_denied";
      if (own && own.status !== "pending") localStorage.removeItem(name);
      at("invited").hidden = !unknown;
      if (!unknown) return;
      at("retry").before(at("invited"));
      at("inviting").textContent = say("invited.unknown");
    },
  };
}
