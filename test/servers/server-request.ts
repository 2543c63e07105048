// Asks for a server that the suites of a run share. It runs in the process that runs the suites (`run-setup.ts`).

import { inject } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where `run-setup.ts` listens: `http://127.0.0.1:<port>`. */
    servers: string
  }
}

/**
 * Resolves when the server runs, with where it is. The first that asks waits for its start, the others for the same one.
 *
 * @throws Error with what kept it from starting
 */
export async function requestServer(name: string): Promise<unknown> {
  const answer = await fetch(new URL(name, inject('servers')))
  if (!answer.ok) throw new Error(await answer.text())
  return answer.json()
}
