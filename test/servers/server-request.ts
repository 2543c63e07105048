// Requests a server shared by the suites of a run. It runs in the process that runs the suites (`run-setup.ts`).

import { request } from 'undici'
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
  // Without a time limit of its own: the start may include a build, and the test's hook has one.
  const { statusCode, body } = await request(new URL(name, inject('servers')), { headersTimeout: 0 })
  if (statusCode !== 200) throw new Error(await body.text())
  return body.json()
}
