/** A survey in an app of React. */
import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { Answers, Receipt, Value } from "./index.js";
import { Survey, type SurveyOptions, type SurveyState } from "./survey.js";

export type { SurveyOptions, SurveyState };

/** The state of a survey, and a function to answer it. */
export interface UsedSurvey extends SurveyState {
  /**
   * Draw the report to an answer, keep it, and send it: it resolves when it is kept, and throws if
   * nothing was drawn.
   */
  readonly contribute: (answer: Value | Answers) => Promise<Receipt>;
}

/**
 * Fetch a survey, and send its one report. It fetches again when an option changes: objects are compared
 * by identity, so create them outside the component.
 */
export function useSurvey({ campaign, server, key, lifetime, policy, issuer, storage }: SurveyOptions): UsedSurvey {
  const survey = useMemo(
    () => new Survey({ campaign, server, key, lifetime, policy, issuer, storage }),
    [campaign, server, key, lifetime, policy, issuer, storage],
  );
  useEffect(() => survey.open(), [survey]);
  const state = useSyncExternalStore(
    survey.subscribe,
    () => survey.state,
    () => survey.state,
  );
  return { ...state, contribute: survey.contribute };
}
