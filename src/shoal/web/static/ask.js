// Questions to the server.
import { Refusal } from "./elements.js";

/** Return the answer to a question: JSON, or the text of a chart with `as: "inline"`, for a page, or "svg", for a file. */
export async function ask(question, values, body) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined));
  const address = `api/${question}?${query}`;
  let response;
  try {
    response = await fetch(address, body === undefined ? {} : { method: "POST", body, headers: { "Content-Type": "text/plain" } });
  } catch {
    throw new Refusal("The server has gone: start it again with shoal web.", null);
  }
  if (["inline", "svg"].includes(values.as) && response.ok) return response.text();
  const answer = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
  if (!response.ok) throw new Refusal(answer.error, answer.field ?? null);
  return answer;
}

/** Where all that is known of a bound can be read. */
export const more = (bound) => `api/explain?name=${encodeURIComponent(bound)}`;
