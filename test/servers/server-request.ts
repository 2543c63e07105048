// Requests a server shared by the suites of a run. It runs in the process that runs the suites (`run-setup.ts`).

import { inject } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** The address of `run-setup.ts`: `http://127.0.0.1:<port>`. */
    servers: string
  }
}

/**
 * Resolves with the server's address when it runs. The first request starts it, and others wait for the same start.
 *
 * @throws Error with the reason if it could not be started
 */
export async function requestServer(name: string): Promise<unknown> {
  const answer = await fetch(new URL(name, inject('servers')))
  if (!answer.ok) throw new Error(await answer.text())
  return answer.json()
}
