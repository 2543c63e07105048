// Fails the test during which an answer did not match its description, in this process or in one that the test started.

import { afterAll, afterEach } from 'vitest'
import { keepFaults, takeFaults } from './faults.ts'

keepFaults()
// Once in a process, because it is a cached module.
await import('./subscribe.ts')
afterEach(failForFaults)
// For faults in hooks, and in processes that ended after the last test.
afterAll(failForFaults)

function failForFaults(): void {
  const faults = takeFaults()
  if (faults.length > 0) throw new Error(faults.join('\n'))
}
