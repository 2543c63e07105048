// Finds buildah and mmdebstrap, which build an image without a daemon, and installs Debian's packages if they are missing and that is possible.

import { execFileSync } from 'node:child_process'
import { aptCommand, installPackages } from './apt.ts'

const packages = ['buildah', 'mmdebstrap']
const isThere = 'buildah --version >/dev/null 2>&1 && mmdebstrap --version >/dev/null 2>&1'

/** Installs them if they are missing. Returns why images cannot be built here, with what would help. */
export function missingBuildah(): string | undefined {
  if (process.getuid?.() !== 0) return 'an image is built and run as root only: start the tests as root'
  if (works()) return undefined
  const problem = installPackages(packages, isThere)
  if (problem === undefined && works()) return undefined
  const advice = `there is no buildah or mmdebstrap on this machine; this installs them: ${aptCommand(packages)}`
  return problem === undefined || problem === '' ? advice : `${advice} (it was tried: ${problem})`
}

function works(): boolean {
  try {
    execFileSync('sh', ['-c', isThere])
    return true
  } catch {
    return false
  }
}
