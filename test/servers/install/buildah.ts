// Finds buildah and mmdebstrap, which build an image without a daemon, and installs Debian's packages if they are missing and that is possible.

import { missingPackages } from './apt.ts'

const check = 'buildah --version >/dev/null 2>&1 && mmdebstrap --version >/dev/null 2>&1'

/** Installs them if they are missing. Returns why images cannot be built here, with what would help. */
export function missingBuildah(): string | undefined {
  if (process.getuid?.() !== 0) return 'an image is built and run as root only: start the tests as root'
  const problem = 'there is no buildah or mmdebstrap on this machine; this installs them'
  return missingPackages({ packages: ['buildah', 'mmdebstrap'], problem, check })
}
