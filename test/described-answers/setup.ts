// Fails the test during which a server answered otherwise than described: in this process, or in one that the test started.

import { afterAll, afterEach } from 'vitest'
import { keepFaults, takeFaults } from './faults.ts'

keepFaults()
// Once in a process: it is a module like any other.
await import('./subscribe.ts')
afterEach(failForFaults)
// Of hooks, and of processes that ended behind the last test.
afterAll(failForFaults)

function failForFaults(): void {
  const faults = takeFaults()
  if (faults.length > 0) throw new Error(faults.join('\n'))
}
