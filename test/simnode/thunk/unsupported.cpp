// SPDX-License-Identifier: BSD-3-Clause
//
// Entry points that a runtime links against but this node has nothing behind. No header is included:
// each stands for any signature (the calling convention lets a function ignore its arguments).

#define NOT_SUPPORTED(name)                                                                                            \
    extern "C" int name();                                                                                             \
    extern "C" int name() { return 11; } // HSAKMT_STATUS_NOT_SUPPORTED

// Shared virtual memory, graphics interoperation, DMA-BUF.
NOT_SUPPORTED(hsaKmtSVMSetAttr)
NOT_SUPPORTED(hsaKmtSVMGetAttr)
NOT_SUPPORTED(hsaKmtRegisterGraphicsHandleToNodes)
NOT_SUPPORTED(hsaKmtRegisterGraphicsHandleToNodesExt)
NOT_SUPPORTED(hsaKmtMapGraphicHandle)
NOT_SUPPORTED(hsaKmtUnmapGraphicHandle)
NOT_SUPPORTED(hsaKmtExportDMABufHandle)

// Memory of other processes.
NOT_SUPPORTED(hsaKmtProcessVMRead)
NOT_SUPPORTED(hsaKmtProcessVMWrite)

// Debugger, profiler, system management.
NOT_SUPPORTED(hsaKmtDbgRegister)
NOT_SUPPORTED(hsaKmtDbgUnregister)
NOT_SUPPORTED(hsaKmtDbgWavefrontControl)
NOT_SUPPORTED(hsaKmtDbgAddressWatch)
NOT_SUPPORTED(hsaKmtDbgEnable)
NOT_SUPPORTED(hsaKmtDbgDisable)
NOT_SUPPORTED(hsaKmtDbgGetDeviceData)
NOT_SUPPORTED(hsaKmtDbgGetQueueData)
NOT_SUPPORTED(hsaKmtGetKernelDebugTrapVersionInfo)
NOT_SUPPORTED(hsaKmtDebugTrapIoctl)
NOT_SUPPORTED(hsaKmtReportQueue)
NOT_SUPPORTED(hsaKmtSPMAcquire)
NOT_SUPPORTED(hsaKmtSPMRelease)
NOT_SUPPORTED(hsaKmtSPMSetDestBuffer)
NOT_SUPPORTED(hsaKmtPmcGetCounterProperties)
NOT_SUPPORTED(hsaKmtPmcRegisterTrace)
NOT_SUPPORTED(hsaKmtPmcUnregisterTrace)
NOT_SUPPORTED(hsaKmtPmcAcquireTraceAccess)
NOT_SUPPORTED(hsaKmtPmcReleaseTraceAccess)
NOT_SUPPORTED(hsaKmtPmcStartTrace)
NOT_SUPPORTED(hsaKmtPmcQueryTrace)
NOT_SUPPORTED(hsaKmtPmcStopTrace)
NOT_SUPPORTED(hsaKmtPcSamplingQueryCapabilities)
NOT_SUPPORTED(hsaKmtPcSamplingCreate)
NOT_SUPPORTED(hsaKmtPcSamplingDestroy)
NOT_SUPPORTED(hsaKmtPcSamplingStart)
NOT_SUPPORTED(hsaKmtPcSamplingStop)
NOT_SUPPORTED(hsaKmtPcSamplingSupport)
NOT_SUPPORTED(hsaKmtOpenSMI)
NOT_SUPPORTED(hsaKmtReplaceAsanHeaderPage)
NOT_SUPPORTED(hsaKmtReturnAsanHeaderPage)
